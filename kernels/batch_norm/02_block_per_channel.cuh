// Idea: a block owns a channel; its threads take neighbouring elements of each run, and add up
// through shuffles and shared memory.
// From naive: what a warp fetches it uses, and a channel has 256 threads instead of one.
// Traffic: three reads, one write; the second and third from a cache where a channel's part of it
// is left by then.
// Limits: contiguous tensors (NCHW). Runs of 49 elements (7 x 7) leave 207 threads of 256 idle.
#pragma once

#include "kernels/batch_norm/plain.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct BlockPerChannelKernel {
  static constexpr int kThreads = 256;
  using Arguments = Plain<T>;
  using AllReduce = block::AllReduce<float, kThreads>;
  struct SharedStorage {
    typename AllReduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.sums);
    const auto [batch, channels, spatial] = a.extents;
    const int64_t c = block_index();
    const int64_t sample = channels * spatial;
    const T* x = a.x + c * spatial;
    T* y = a.y + c * spatial;

    const auto count = static_cast<float>(batch * spatial);
    float sum = 0;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = thread_index(); i < spatial; i += kThreads) {
        sum += to_float(thread::load(x + n * sample + i));
      }
    }
    const float mean = all_reduce(sum, Plus{}) / count;
    float squares = 0;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = thread_index(); i < spatial; i += kThreads) {
        const float centred = to_float(thread::load(x + n * sample + i)) - mean;
        squares += centred * centred;
      }
    }
    const thread::Moments moments{count, mean, all_reduce(squares, Plus{}), 0};
    const float rstd = a.statistics.normal(moments).rstd;
    if (thread_index() == 0) a.statistics.finish(c, moments);

    const float weight = of_channel(a.weight, c, 1.0F);
    const float bias = of_channel(a.bias, c);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = thread_index(); i < spatial; i += kThreads) {
        const float z = (to_float(thread::load(x + n * sample + i)) - mean) * rstd;
        thread::store(y + n * sample + i, from_float<T>(z * weight + bias));
      }
    }
  }
};

struct BlockPerChannel {
  static bool supports(const ForwardCall& call, Why& why) {
    return is_contiguous(call.layout, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BlockPerChannelKernel<T>;
      launch<Kernel>({.blocks = call.layout.sets, .threads = Kernel::kThreads}, context.stream,
                     plain_of<T>(call));
    });
  }
};

inline constexpr Rung kBlockPerChannel =
    rung_of<BlockPerChannel, BatchNormForward, BatchNormTraining>({
        .name = "block_per_channel",
        .from = "naive",
        .idea = "a block a channel: neighbours load neighbours, sums through shared memory",
    });

#endif

}  // namespace ws::batch_norm
