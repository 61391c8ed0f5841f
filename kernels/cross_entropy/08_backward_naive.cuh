// Idea: a thread an element: dx = dloss * (exp(x - lse) - (c == target)).
// Traffic: one read, one write, an element an access; target, lse and dloss of the row come from
// the caches, and a division says which row it is.
// Limits: contiguous rows; targets alone, no weights, label_smoothing or z_loss.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct BackwardNaiveKernel {
  static constexpr int kThreads = 256;
  using Arguments = Rows<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count * a.columns) return;
    const int64_t row = i / a.columns;
    const int64_t column = i % a.columns;
    const Target target = a.target(row, column == 0);
    if (!target.is_right) return;
    float dx = 0;
    if (!target.is_ignored) {
      const float lse = thread::load(a.lse + row * a.strides[kLse]);
      const float p = thread::fast_exp(to_float(thread::load(a.logits + i)) - lse);
      dx = a.dloss_of(row) * (p - (column == target.index ? 1.0F : 0.0F));
    }
    thread::store(a.gradient + i, from_float<T>(dx));
  }
};

struct BackwardNaive {
  static bool supports(const Call& call, Why& why) { return is_dense_and_plain(call, why); }
  static void run(const Call& call, const Context& context) {
    if (call.rows.columns == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardNaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.rows.rows * call.rows.columns, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, rows_of<T>(call, "cross_entropy_backward/backward_naive"));
    });
  }
};

inline constexpr Rung kBackwardNaive = rung_of<BackwardNaive, CrossEntropyBackward>(
    {.name = "backward_naive", .from = "naive", .idea = "a thread an element of the gradient"});
#endif

}  // namespace ws::cross_entropy
