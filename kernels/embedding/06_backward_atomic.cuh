// Idea: a thread an element of dy, which it adds to its row of the gradient in global memory.
// From backward_naive: what is done is proportional to dy, not to the table times the indices.
// Traffic: a write of the gradient for its zeros, a read of dy, an atomic of the L2 for each of its
// elements.
// Limits: f32, contiguous tensors, no scale_grad_by_freq. Equal indices queue, in an order that is
// nobody's.
#pragma once

#include "kernels/embedding/lookup.hpp"
#include "warpsmith/ptx/atomic.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
struct BackwardAtomicKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    const float* dy;
    float* dweight;  // zero
    int64_t columns;
    int64_t elements;
    int64_t ignored;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t e = block_index() * kThreads + thread_index();
    if (e >= a.elements) return;
    const int64_t i = e / a.columns;
    const int64_t index = a.index[i];
    if (!a.index.is_right(index, i) || index == a.ignored) return;
    ptx::red_global_add(a.dweight + index * a.columns + e % a.columns, thread::load(a.dy + e));
  }
};

struct BackwardAtomic {
  static bool supports(const EmbeddingBackward::Call& call, Why& why) {
    return is_dense(call, why) &&
           why.unless(!call.by_count, "does not count how often an index occurs");
  }
  static void run(const EmbeddingBackward::Call& call, const Context& context) {
    using Kernel = BackwardAtomicKernel;
    const int64_t columns = call.rows.columns;
    set_zero(call.table, static_cast<size_t>(call.table_rows * columns) * sizeof(float),
             context.stream);
    const int64_t elements = call.rows.rows * columns;
    if (elements == 0) return;
    launch<Kernel>(
        {.blocks = divide_up(elements, int64_t{Kernel::kThreads}), .threads = Kernel::kThreads},
        context.stream,
        {indices_of(call, "embedding_backward/backward_atomic"), call.rows.as<const float>(kRow),
         static_cast<float*>(call.table), columns, elements, call.ignored});
  }
};

inline constexpr Rung kBackwardAtomic =
    rung_of<BackwardAtomic, DTypes{DType::kF32}, EmbeddingBackward>(
        {.name = "backward_atomic",
         .from = "backward_naive",
         .idea = "a thread an element of dy adds it in global memory",
         .deterministic = false});
#endif

}  // namespace ws::embedding
