// Idea: maximum and sum in one pass: when the maximum grows, the sum is scaled down.
// From block_per_row: the row is read once; two exponentials an element instead of one.
// Traffic: one read, an element an access.
// Limits: contiguous rows; targets alone, no weights, label_smoothing or z_loss.
#pragma once

#include "kernels/cross_entropy/rows.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct OnlineKernel {
  static constexpr int kThreads = 256;
  using Arguments = Rows<T>;
  using AllReduce = block::AllReduce<thread::MaxSum, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage partials;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t row = block_index();
    const Target target = a.target(row, thread_index() == 0);
    if (!target.is_right) return;
    if (target.is_ignored) {
      if (thread_index() == 0) a.store_numbers(row, 0, 0);
      return;
    }
    const T* x = a.logits + row * a.columns;

    // m = max(x[0..i]), s = sum(exp(x[0..i] - m))
    float m = -INFINITY;
    float s = 0;
    for (int64_t i = thread_index(); i < a.columns; i += kThreads) {
      const float v = to_float(thread::load(x + i));
      const float larger = fmaxf(m, v);
      const float shift = larger == -INFINITY ? 0 : larger;  // -inf - -inf would be NaN
      s = s * thread::fast_exp(m - shift) + thread::fast_exp(v - shift);
      m = larger;
    }
    const thread::MaxSum total = AllReduce(shared.partials)(
        thread::MaxSum{m, s}, [](const auto& l, const auto& r) { return thread::merge(l, r); });
    if (thread_index() != 0) return;
    const float lse = total.max + logf(total.sum);
    a.store_numbers(row, lse - to_float(thread::load(x + target.index)), lse);
  }
};

struct Online {
  static bool supports(const Call& call, Why& why) {
    return is_dense_and_plain(call, why) &&
           why.unless(call.rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = OnlineKernel<T>;
      launch<Kernel>({.blocks = call.rows.rows, .threads = Kernel::kThreads}, context.stream,
                     rows_of<T>(call, "cross_entropy_forward/online"));
    });
  }
};

inline constexpr Rung kOnline = rung_of<Online, CrossEntropyForward>(
    {.name = "online",
     .from = "block_per_row",
     .idea = "maximum and sum in one pass: one read, two exponentials an element"});
#endif

}  // namespace ws::cross_entropy
