// Idea: any strides of table, indices, weights and result, an element a thread.
// From bag_vector: accesses of one element.
// Traffic: a read of a row for each index where its elements lie side by side, a sector of 32 bytes
// for each element where they do not; a write of each bag.
// Limits: none. A bag is not split.
#pragma once

#include "kernels/embedding/04_any_layout.cuh"
#include "kernels/embedding/bags.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class T>
struct BagAnyLayoutKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Bags<T> bags;
    T* y;
    std::array<int64_t, 2> strides;
    int64_t columns;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t e = block_index() * kThreads + thread_index(); e < a.elements; e += step) {
      const int64_t bag = e / a.columns;
      const int64_t column = e - bag * a.columns;
      thread::store(a.y + bag * a.strides[0] + column * a.strides[1],
                    a.bags.template reduced<1>(bag, column));
    }
  }
};

struct BagAnyLayout {
  static void run(const BagCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BagAnyLayoutKernel<T>;
      const int64_t elements = call.bags * call.columns;
      launch<Kernel>(
          {.blocks = walking_blocks(elements, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {Bags<T>(call, "embedding_bag/bag_any_layout"), static_cast<T*>(call.y), call.y_strides,
           call.columns, elements});
    });
  }
};

inline constexpr Rung kBagAnyLayout = rung_of<BagAnyLayout, EmbeddingBag>(
    {.name = "bag_any_layout", .from = "bag_vector", .idea = "any strides, an element a thread"});
#endif

}  // namespace ws::embedding
