// Idea: a thread an element of the result, which walks its bag and reads its column of each row.
// Traffic: a read of a row for each index, a write of each bag; 4 or 2 bytes a lane. The index of
// an entry is asked for by all threads of the bag, and by all but one found in L1.
// Limits: contiguous tensors. A thread waits for an index, then for its element, then for the next
// index; a long bag takes as long as it is.
#pragma once

#include "kernels/embedding/bags.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class T>
struct BagNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Bags<T> bags;
    T* y;
    int64_t columns;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto& [bags, y, columns, elements] = a;
    const int64_t element = block_index() * kThreads + thread_index();
    if (element >= elements) return;
    const int64_t bag = element / columns;
    const int64_t column = element % columns;
    const auto [first, end] = bags.entries_of(bag);
    float total = 0;
    int64_t count = 0;
    for (int64_t i = first; i < end; ++i) {
      const int64_t row = bags.index[i];
      if (!bags.index.is_right(row, i) || row == bags.ignored) continue;
      const float value = to_float(thread::load(bags.weight + row * columns + column));
      if (bags.mode != BagMode::kMax) {
        total += (bags.factors == nullptr ? 1 : to_float(thread::load(bags.factors + i))) * value;
      } else if (count == 0 || value > total) {
        total = value;
      }
      ++count;
    }
    if (bags.mode == BagMode::kMean && count > 0) total /= static_cast<float>(count);
    thread::store(y + element, from_float<T>(total));
  }
};

struct BagNaive {
  static bool supports(const BagCall& call, Why& why) {
    return why.unless(call.is_dense, "takes contiguous tensors");
  }
  static void run(const BagCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BagNaiveKernel<T>;
      const int64_t elements = call.bags * call.columns;
      launch<Kernel>(
          {.blocks = divide_up(elements, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
          context.stream,
          {Bags<T>(call, "embedding_bag/bag_naive"), static_cast<T*>(call.y), call.columns,
           elements});
    });
  }
};

inline constexpr Rung kBagNaive = rung_of<BagNaive, EmbeddingBag>(
    {.name = "bag_naive", .idea = "a thread an element of the result walks its bag"});
#endif

}  // namespace ws::embedding
