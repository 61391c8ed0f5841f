// Idea: a channel over many blocks. One launch leaves the moments of each part of a channel, one
// merges them in their order and moves the running statistics, one normalises, from the end: what
// was read last is what L2 holds.
// From vector: 64 channels, or 3, keep all SMs busy. The launches overlap where the GPU can.
// Traffic: two reads, one write; of the second read some 30 MB come from L2.
// Limits: tensors without gaps whose channels lie in runs. With given statistics only the last
// launch is left.
#include "kernels/batch_norm/parts.hpp"
#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct PartMomentsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = Runs<T>::kWidth;
  using AllReduce = block::AllReduce<thread::Moments, kThreads>;
  struct Arguments {
    Runs<T> runs;
    Plan plan;
    thread::Moments* moments;
  };
  struct SharedStorage {
    typename AllReduce::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.moments);
    const Runs<T>& runs = a.runs;
    const int64_t start = runs.start(block_index() / a.plan.parts);
    const auto [first, last] = a.plan.range(block_index(), runs.windows);
    Running running;
    for (int64_t w = first + thread_index(); w < last; w += kLoads * kThreads) {
      Window window[kLoads];
      typename Runs<T>::Packed x[kLoads];
      load_windows<kThreads>(runs, start, w, last, window,
                             [&](int j) { x[j] = runs.load(0, window[j]); });
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (w + j * kThreads < last) add<kWidth>(running, window[j], x[j]);
      }
    }
    const auto moments = all_reduce(running.moments(), MergeMoments{});
    if (thread_index() == 0) {
      thread::store(a.moments + block_index(), Vec<thread::Moments, 1>{{moments}});
    }
  }
};

template <class T>
struct NormaliseKernel {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 4;
  static constexpr int kLoads = 4;
  struct Arguments {
    Runs<T> runs;
    Plan plan;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Runs<T>& runs = a.runs;
    const int64_t item = grid_blocks() - 1 - block_index();
    const int64_t s = item / a.plan.parts;
    const int64_t start = runs.start(s);
    const auto [first, last] = a.plan.range(item, runs.windows);
    ptx::griddepcontrol_wait();
    Affine<T> affine(a.weight, a.bias, runs, s, a.statistics.stored(s));
    for (int64_t w = first + thread_index(); w < last; w += kLoads * kThreads) {
      Window window[kLoads];
      typename Runs<T>::Packed x[kLoads];
      load_windows<kThreads>(runs, start, w, last, window,
                             [&](int j) { x[j] = runs.load(0, window[j]); });
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        if (w + j * kThreads < last) runs.store(window[j], affine(window[j], x[j]));
      }
    }
  }
};

struct TwoPassGrid {
  static constexpr int kBlocksOfSm = 8;
  static Plan plan(const ForwardCall& call) {
    return Plan::of(call.layout.sets, windows_of_set(call.layout, call.dtype), 256, kBlocksOfSm);
  }
  static bool supports(const ForwardCall& call, Why& why) {
    return runs_supported(call.layout, call.dtype, why) &&
           why.unless(call.layout.sets * plan(call).parts <= kMostBlocks, "takes up to ",
                      kMostBlocks, " parts");
  }
  static Workspace workspace(const ForwardCall& call) {
    if (call.given) return {};
    return workspace_of(plan(call), call.layout.sets);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Plan cut = plan(call);
      const Runs<T> runs = runs_of<T>(call.layout, call.dtype);
      const int64_t blocks = call.layout.sets * cut.parts;
      const Statistics statistics = statistics_of(call);
      if (!call.given) {
        using Parts = PartMomentsKernel<T>;
        auto* moments = static_cast<thread::Moments*>(context.workspace);
        launch<Parts>({.blocks = blocks, .threads = Parts::kThreads}, context.stream,
                      {runs, cut, moments});
        FinishStatistics::launch_on({moments, nullptr, call.layout.sets, cut.parts, statistics},
                                    context.stream);
      }
      using Normalise = NormaliseKernel<T>;
      launch<Normalise>({.blocks = blocks, .threads = Normalise::kThreads, .overlaps = !call.given},
                        context.stream, {runs, cut, call.weight, call.bias, statistics});
    });
  }
};

}  // namespace

extern const Rung kTwoPassGrid;
const Rung kTwoPassGrid =
    rung_of<TwoPassGrid, BatchNormForward, BatchNormTraining, BatchNormInference, GroupNormForward>(
        {
            .name = "two_pass_grid",
            .from = "vector",
            .idea = "a channel over many blocks, moments merged in order; normalised from the end",
        });

}  // namespace ws::batch_norm
