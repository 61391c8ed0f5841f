// Idea: a thread owns a row and follows the formula: its maximum, the sum of exp(x - max), then
// loss = max + log(sum) - x[target].
// Traffic: two reads; neighbouring threads read addresses a row apart, so each 32-byte sector that
// is fetched gives one element.
// Limits: contiguous rows; targets alone, no weights, label_smoothing or z_loss.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 128;
  using Arguments = Rows<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.count) return;
    const Target target = a.target(row, true);
    if (!target.is_right) return;
    if (target.is_ignored) return a.store_numbers(row, 0, 0);
    const T* x = a.logits + row * a.columns;

    float max = -INFINITY;
    for (int64_t i = 0; i < a.columns; ++i) max = fmaxf(max, to_float(thread::load(x + i)));
    const float shift = max == -INFINITY ? 0 : max;  // -inf - -inf would be NaN
    float sum = 0;
    for (int64_t i = 0; i < a.columns; ++i) {
      sum += thread::fast_exp(to_float(thread::load(x + i)) - shift);
    }
    const float lse = max + logf(sum);
    a.store_numbers(row, lse - to_float(thread::load(x + target.index)), lse);
  }
};

struct Naive {
  static bool supports(const Call& call, Why& why) { return is_dense_and_plain(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, rows_of<T>(call, "cross_entropy_forward/naive"));
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, CrossEntropyForward>(
    {.name = "naive", .idea = "a thread a row: maximum, sum of exponentials, the target's logit"});
#endif

}  // namespace ws::cross_entropy
