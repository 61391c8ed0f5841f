// Idea: a thread owns a channel: the sums of its gradient first, then each element of dx.
// Traffic: grad and x twice, dx once; neighbouring threads read addresses HW elements apart.
// Limits: contiguous tensors (NCHW), a thread a channel.
#pragma once

#include "kernels/batch_norm/plain.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct BackwardNaiveKernel {
  static constexpr int kThreads = 32;
  using Arguments = PlainBackward<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t batch = a.extents.batch;
    const int64_t spatial = a.extents.spatial;
    const int64_t sample = a.extents.channels * spatial;
    const int64_t c = block_index() * kThreads + thread_index();
    if (c >= a.extents.channels) return;
    const float mean = of_channel(a.rule.mean, c);
    const float rstd = of_channel(a.rule.rstd, c);
    const auto element = [&](const T* of, int64_t n, int64_t i) {
      return to_float(thread::load(of + n * sample + c * spatial + i));
    };

    float dbias = 0;
    float dweight = 0;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < spatial; ++i) {
        const float grad = element(a.grad, n, i);
        dbias += grad;
        dweight += grad * (element(a.x, n, i) - mean) * rstd;
      }
    }
    store(a.rule.dbias, c * a.rule.dbias.stride, dbias);
    store(a.rule.dweight, c * a.rule.dweight.stride, dweight);

    const float scale = rstd * of_channel(a.rule.weight, c, 1.0F);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < spatial; ++i) {
        float d = element(a.grad, n, i);
        if (a.rule.training) {
          const float z = (element(a.x, n, i) - mean) * rstd;
          d -= (dbias + z * dweight) * a.rule.inverse_count;
        }
        thread::store(a.dx + n * sample + c * spatial + i, from_float<T>(d * scale));
      }
    }
  }
};

struct BackwardNaive {
  static bool supports(const BackwardCall& call, Why& why) {
    return is_contiguous(call.layout, why);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardNaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.layout.sets, int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, plain_of<T>(call));
    });
  }
};

inline constexpr Rung kBackwardNaive = rung_of<BackwardNaive, BatchNormBackward>({
    .name = "backward_naive",
    .idea = "a thread a channel: sums of the gradient, then dx, as the formula says",
});

#endif

}  // namespace ws::batch_norm
