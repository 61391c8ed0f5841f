// Idea: mean and variance in one pass, moved along as each number comes in (Welford), merged
// between threads by Chan's formula.
// From block_per_channel: the channel is read twice instead of three times, and no sum grows with
// its length: what is kept is of the order of the numbers, be there 32 x 112 x 112 of them.
// Traffic: two reads, one write. The price is a division an element.
// Limits: contiguous tensors (NCHW).
#pragma once

#include "kernels/batch_norm/plain.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct WelfordKernel {
  static constexpr int kThreads = 256;
  using Arguments = Plain<T>;
  using AllReduce = block::AllReduce<thread::Moments, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.moments);
    const auto [batch, channels, spatial] = a.extents;
    const int64_t c = block_index();
    const int64_t sample = channels * spatial;
    const T* x = a.x + c * spatial;
    T* y = a.y + c * spatial;

    float count = 0;
    float mean = 0;
    float squares = 0;  // sum((x - mean)^2)
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = thread_index(); i < spatial; i += kThreads) {
        const float v = to_float(thread::load(x + n * sample + i));
        count += 1;
        const float before = v - mean;
        mean += before / count;
        squares += before * (v - mean);
      }
    }
    const auto moments = all_reduce(thread::Moments{count, mean, squares, 0}, MergeMoments{});
    const Normal normal = a.statistics.normal(moments);
    if (thread_index() == 0) a.statistics.finish(c, moments);

    const float weight = of_channel(a.weight, c, 1.0F);
    const float bias = of_channel(a.bias, c);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = thread_index(); i < spatial; i += kThreads) {
        const float z = (to_float(thread::load(x + n * sample + i)) - normal.mean) * normal.rstd;
        thread::store(y + n * sample + i, from_float<T>(z * weight + bias));
      }
    }
  }
};

struct Welford {
  static bool supports(const ForwardCall& call, Why& why) {
    return is_contiguous(call.layout, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WelfordKernel<T>;
      launch<Kernel>({.blocks = call.layout.sets, .threads = Kernel::kThreads}, context.stream,
                     plain_of<T>(call));
    });
  }
};

inline constexpr Rung kWelford = rung_of<Welford, BatchNormForward, BatchNormTraining>({
    .name = "welford",
    .from = "block_per_channel",
    .idea = "mean and variance in one pass: two reads",
});

#endif

}  // namespace ws::batch_norm
