// Idea: a block a channel and 16 bytes an access, in the windows of the forward (runs.hpp); an
// element of dx is three multiply-adds away from what the sums have said.
// From backward_naive: neighbours load neighbours, sums of grad and of grad * (x - mean) go through
// shuffles and shared memory together.
// Traffic: grad and x twice, dx once; the second time from the end, where caches hold it.
// Limits: tensors without gaps that lie alike, channels in runs.
#pragma once

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct BackwardVectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 2;
  static constexpr int kWidth = Runs<T>::kWidth;
  using Packed = typename Runs<T>::Packed;
  using AllReduce = block::AllReduce<Sums, kThreads>;
  struct Arguments {
    Runs<T> runs;
    GradientRule rule;
  };
  struct SharedStorage {
    typename AllReduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.sums);
    const Runs<T>& runs = a.runs;
    const int64_t c = block_index();
    const int64_t start = runs.start(c);
    const float mean = a.rule.mean_of(c);
    Sums sums = Sums::none();
    for (int64_t w = thread_index(); w < runs.windows; w += kLoads * kThreads) {
      Window window[kLoads];
      Packed grad[kLoads];
      Packed x[kLoads];
      load_windows<kThreads>(runs, start, w, runs.windows, window, [&](int j) {
        grad[j] = runs.load(0, window[j]);
        x[j] = runs.load(1, window[j]);
      });
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (w + j * kThreads < runs.windows) add<kWidth>(sums, window[j], grad[j], x[j], mean);
      }
    }
    sums = all_reduce(sums, PlusSums{});
    if (thread_index() == 0) a.rule.finish(c, sums);
    const Gradient gradient = a.rule.gradient(c, sums);
#pragma unroll 2
    for (int64_t w = thread_index(); w < runs.windows; w += kThreads) {
      const Window window = runs.window(start, runs.windows - 1 - w);
      store_gradient(runs, window, gradient, runs.load(0, window), runs.load(1, window));
    }
  }
};

struct BackwardVector {
  static bool supports(const BackwardCall& call, Why& why) {
    return runs_supported(call.layout, call.dtype, why);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardVectorKernel<T>;
      launch<Kernel>({.blocks = call.layout.sets, .threads = Kernel::kThreads}, context.stream,
                     {runs_of<T>(call.layout, call.dtype), rule_of(call)});
    });
  }
};

inline constexpr Rung kBackwardVector = rung_of<BackwardVector, BatchNormBackward>({
    .name = "backward_vector",
    .from = "backward_naive",
    .idea = "a block a channel, 16 bytes an access, both sums in one reduction",
});

#endif

}  // namespace ws::batch_norm
