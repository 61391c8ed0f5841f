// Idea: a thread a vector of 16 bytes of the result, with four rows of its bag under way.
// From bag_naive: a quarter of the instructions of f32, an eighth of those of 16 bits; four indices
// are there at once, and after them four vectors. Rows of 64 elements leave no lane idle: the
// result's vectors are one list, and a warp has several short bags.
// Traffic: a read of a row for each index, 512 bytes a warp; a write of each bag.
// Limits: table and result of rows of whole vectors of 16 bytes; fewer than 2^31 vectors. A bag is
// not split: one that has most of the indices is waited for.
#pragma once

#include "kernels/embedding/bags.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class T>
struct BagVectorKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 8;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  struct Arguments {
    Bags<T> bags;
    T* y;
    int64_t y_stride;
    uint32_t vectors;
    thread::Divider bag;  // vectors of a row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const uint32_t vector =
        static_cast<uint32_t>(block_index()) * kThreads + static_cast<uint32_t>(thread_index());
    if (vector >= a.vectors) return;
    const uint32_t bag = a.bag.quotient(vector);
    const uint32_t column = (vector - bag * a.bag.divisor()) * kWidth;
    thread::store(a.y + bag * a.y_stride + column, a.bags.template reduced<kWidth>(bag, column));
  }
};

struct BagVector {
  static bool supports(const BagCall& call, Why& why) {
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    const auto starts = [](const void* data) {
      return reinterpret_cast<uintptr_t>(data) % 16 == 0;
    };
    const int64_t of_row = call.columns / width;
    constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
    return why.unless(call.columns % width == 0 && call.strides[0] % width == 0 &&
                          call.strides[1] == 1 && call.y_strides[0] % width == 0 &&
                          call.y_strides[1] == 1 && starts(call.table) && starts(call.y),
                      "takes rows of whole vectors of 16 bytes") &&
           why.unless(of_row == 0 || call.bags < kMost / of_row, "takes fewer than ", kMost,
                      " vectors, not ", call.bags, " bags of ", of_row);
  }
  static void run(const BagCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BagVectorKernel<T>;
      const int64_t of_row = call.columns / Kernel::kWidth;
      const int64_t vectors = of_row * call.bags;
      launch<Kernel>(
          {.blocks = divide_up(vectors, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
          context.stream,
          {Bags<T>(call, "embedding_bag/bag_vector"), static_cast<T*>(call.y), call.y_strides[0],
           static_cast<uint32_t>(vectors), thread::Divider(of_row)});
    });
  }
};

inline constexpr Rung kBagVector = rung_of<BagVector, EmbeddingBag>(
    {.name = "bag_vector",
     .from = "bag_naive",
     .idea = "a thread 16 bytes of the result, four rows of its bag under way"});
#endif

}  // namespace ws::embedding
