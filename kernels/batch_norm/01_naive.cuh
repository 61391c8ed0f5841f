// Idea: a thread owns a channel and follows the formula: mean, variance, then each output.
// Traffic: three reads, one write; neighbouring threads read addresses HW elements apart, so that
// each 32-byte sector that is fetched gives one element at a time.
// Limits: contiguous tensors (NCHW). As many threads as there are channels: a few hundred on a GPU
// that holds 270 000.
#pragma once

#include "kernels/batch_norm/plain.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 32;
  using Arguments = Plain<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto [batch, channels, spatial] = a.extents;
    const int64_t c = block_index() * kThreads + thread_index();
    if (c >= channels) return;
    const int64_t sample = channels * spatial;
    const T* x = a.x + c * spatial;
    T* y = a.y + c * spatial;

    Normal normal{};
    if (a.statistics.given) {
      normal = a.statistics.stored(c);
    } else {
      const auto count = static_cast<float>(batch * spatial);
      float sum = 0;
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t i = 0; i < spatial; ++i) sum += to_float(thread::load(x + n * sample + i));
      }
      const float mean = sum / count;
      float squares = 0;
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t i = 0; i < spatial; ++i) {
          const float centred = to_float(thread::load(x + n * sample + i)) - mean;
          squares += centred * centred;
        }
      }
      // rstd = 1 / sqrt(squares / count + eps); running statistics move along.
      normal = a.statistics.finish(c, {count, mean, squares, 0});
    }

    const float weight = of_channel(a.weight, c, 1.0F);
    const float bias = of_channel(a.bias, c);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < spatial; ++i) {
        const float z = (to_float(thread::load(x + n * sample + i)) - normal.mean) * normal.rstd;
        thread::store(y + n * sample + i, from_float<T>(z * weight + bias));
      }
    }
  }
};

struct Naive {
  static bool supports(const ForwardCall& call, Why& why) {
    return is_contiguous(call.layout, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.layout.sets, int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, plain_of<T>(call));
    });
  }
};

inline constexpr Rung kNaive =
    rung_of<Naive, BatchNormForward, BatchNormTraining, BatchNormInference>({
        .name = "naive",
        .idea = "a thread a channel: mean, variance and output as the formula says",
    });

#endif

}  // namespace ws::batch_norm
