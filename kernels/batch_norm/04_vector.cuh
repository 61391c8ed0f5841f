// Idea: 16 bytes an access, four of them in flight, wherever a run begins: it is taken in aligned
// windows, of which the first and the last belong to it in part (runs.hpp).
// From welford: an eighth of the instructions for an element of 16 bits, and distances from the
// first number of a thread instead of a division for each. Short runs share a trip: windows are
// counted through all of a channel's runs, so that 7 x 7 keeps all threads busy.
// Traffic: two reads, one write.
// Limits: tensors without gaps whose channels lie in runs; a group of channels is such a set too.
#pragma once

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = Runs<T>::kWidth;
  using Packed = typename Runs<T>::Packed;
  using AllReduce = block::AllReduce<thread::Moments, kThreads>;
  struct Arguments {
    Runs<T> runs;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {
    typename AllReduce::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.moments);
    const Runs<T>& runs = a.runs;
    const int64_t s = block_index();
    const int64_t start = runs.start(s);

    Running running;
    for (int64_t w = thread_index(); w < runs.windows; w += kLoads * kThreads) {
      Window window[kLoads];
      Packed x[kLoads];
      load_windows<kThreads>(runs, start, w, runs.windows, window,
                             [&](int j) { x[j] = runs.load(0, window[j]); });
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (w + j * kThreads < runs.windows) add<kWidth>(running, window[j], x[j]);
      }
    }
    const auto moments = all_reduce(running.moments(), MergeMoments{});
    if (thread_index() == 0) a.statistics.finish(s, moments);

    // From the end: what was read last is what the caches hold.
    Affine<T> affine(a.weight, a.bias, runs, s, a.statistics.normal(moments));
    const int64_t last = runs.windows - 1;
#pragma unroll 2
    for (int64_t w = thread_index(); w < runs.windows; w += kThreads) {
      const Window window = runs.window(start, last - w);
      runs.store(window, affine(window, runs.load(0, window)));
    }
  }
};

struct Vector {
  static bool supports(const ForwardCall& call, Why& why) {
    return runs_supported(call.layout, call.dtype, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = VectorKernel<T>;
      launch<Kernel>(
          {.blocks = call.layout.sets, .threads = Kernel::kThreads}, context.stream,
          {runs_of<T>(call.layout, call.dtype), call.weight, call.bias, statistics_of(call)});
    });
  }
};

inline constexpr Rung kVector =
    rung_of<Vector, BatchNormForward, BatchNormTraining, GroupNormForward>({
        .name = "vector",
        .from = "welford",
        .idea = "16 bytes an access wherever a run begins, in aligned windows",
    });

#endif

}  // namespace ws::batch_norm
