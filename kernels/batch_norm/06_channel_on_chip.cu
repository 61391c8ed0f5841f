// Idea: a cluster of up to 16 blocks owns a channel: all of its runs lie in the registers of the
// cluster's threads while the blocks merge their moments through distributed shared memory.
// From two_pass_grid: x is read once, in one launch.
// Traffic: one read, one write; 16 bytes between each two blocks of a cluster.
// Limits: 16 blocks of 64 KiB, whose runs have no gaps. A cluster of more than 8 is not portable
// beyond Hopper.
#include "kernels/batch_norm/on_chip.hpp"
#include "warpsmith/thread/forget.hpp"

namespace ws::batch_norm {
namespace {

template <class T, int kThreads_, int kVectors, int kMinBlocks_>
struct ChannelOnChipKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = Runs<T>::kWidth;
  using Reduce = cluster::AllReduce<thread::Moments, kThreads>;
  struct Arguments {
    Runs<T> runs;
    int64_t share;  // windows of a block
    Values weight;
    Values bias;
    Statistics statistics;
  };
  static Arguments arguments(const Runs<T>& runs, int64_t share, const ForwardCall& call) {
    return {runs, share, call.weight, call.bias, statistics_of(call)};
  }
  struct SharedStorage {
    typename Reduce::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Runs<T>& runs = a.runs;
    const Share share(runs.windows, a.share);
    const int64_t s = share.channel;
    const int64_t start = runs.start(s);
    const int64_t last = share.last;
    int64_t mine = share.first;
    const auto at = [&](int v) { return mine + v * kThreads; };

    typename Runs<T>::Packed x[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {  // in flight while the cluster meets
      if (at(v) < last) x[v] = runs.load(0, runs.window(start, at(v)));
    }
    mine = thread::forget(mine);  // where windows are costs less than the registers to keep it
    Reduce all_reduce(shared.moments);
    Running running;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (at(v) < last) add<kWidth>(running, runs.window(start, at(v)), x[v]);
    }
    mine = thread::forget(mine);
    const auto moments = all_reduce(running.moments(), thread::Moments::none(), MergeMoments{});
    if (cluster_rank() == 0 && thread_index() == 0) a.statistics.finish(s, moments);
    Affine<T> affine(a.weight, a.bias, runs, s, a.statistics.normal(moments));
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (at(v) >= last) break;
      const Window window = runs.window(start, at(v));
      runs.store(window, affine(window, x[v]));
    }
    all_reduce.finish();
  }
};

using ChannelOnChip = OnChip<ForwardCall, ChannelOnChipKernel, 4>;

}  // namespace

extern const Rung kChannelOnChip;
const Rung kChannelOnChip =
    rung_of<ChannelOnChip, BatchNormForward, BatchNormTraining, GroupNormForward>({
        .name = "channel_on_chip",
        .from = "two_pass_grid",
        .idea = "a cluster a channel, which stays in its registers: one read",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
