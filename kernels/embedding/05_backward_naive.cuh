// Idea: a thread an element of the gradient, which looks through all indices for its row.
// Traffic: the indices once for each element of the table, from L1; a read of every row, a write of
// the gradient. Rows add up in their order.
// Limits: contiguous tensors, no scale_grad_by_freq; tables and calls of a few thousand rows.
#pragma once

#include "kernels/embedding/lookup.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class T>
struct BackwardNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    const T* dy;
    T* dweight;
    int64_t count;
    int64_t columns;
    int64_t elements;
    int64_t ignored;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t e = block_index() * kThreads + thread_index();
    if (e >= a.elements) return;
    const int64_t row = e / a.columns;
    const int64_t column = e % a.columns;
    float sum = 0;
    for (int64_t i = 0; i < a.count; ++i) {
      const int64_t index = a.index[i];
      if (e == 0) a.index.is_right(index, i);
      if (index == row && row != a.ignored) {
        sum += to_float(thread::load(a.dy + i * a.columns + column));
      }
    }
    thread::store(a.dweight + e, from_float<T>(sum));
  }
};

struct BackwardNaive {
  static bool supports(const EmbeddingBackward::Call& call, Why& why) {
    return is_dense(call, why) &&
           why.unless(!call.by_count, "does not count how often an index occurs");
  }
  static void run(const EmbeddingBackward::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardNaiveKernel<T>;
      const int64_t elements = call.table_rows * call.rows.columns;
      launch<Kernel>(
          {.blocks = divide_up(elements, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
          context.stream,
          {indices_of(call, "embedding_backward/backward_naive"), call.rows.as<const T>(kRow),
           static_cast<T*>(call.table), call.rows.rows, call.rows.columns, elements, call.ignored});
    });
  }
};

inline constexpr Rung kBackwardNaive = rung_of<BackwardNaive, EmbeddingBackward>(
    {.name = "backward_naive",
     .from = "naive",
     .idea = "a thread an element of the gradient looks through all indices"});
#endif

}  // namespace ws::embedding
