// Idea: a cluster of up to 16 blocks owns a channel: grad and x lie in the registers of its threads
// while the blocks add up their sums through distributed shared memory.
// From backward_two_pass: grad and x are read once, in one launch.
// Traffic: two reads, one write; 8 bytes between each two blocks of a cluster.
// Limits: 16 blocks of 32 KiB of each, whose runs have no gaps.
#include "kernels/batch_norm/on_chip.hpp"
#include "warpsmith/thread/forget.hpp"

namespace ws::batch_norm {
namespace {

template <class T, int kThreads_, int kVectors, int kMinBlocks_>
struct BackwardOnChipKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = Runs<T>::kWidth;
  using Packed = typename Runs<T>::Packed;
  using Reduce = cluster::AllReduce<Sums, kThreads>;
  struct Arguments {
    Runs<T> runs;
    int64_t share;  // windows of a block
    GradientRule rule;
  };
  static Arguments arguments(const Runs<T>& runs, int64_t share, const BackwardCall& call) {
    return {runs, share, rule_of(call)};
  }
  struct SharedStorage {
    typename Reduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Runs<T>& runs = a.runs;
    const Share share(runs.windows, a.share);
    const int64_t c = share.channel;
    const int64_t start = runs.start(c);
    const int64_t last = share.last;
    int64_t mine = share.first;
    const auto at = [&](int v) { return mine + v * kThreads; };

    Packed grad[kVectors];
    Packed x[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {  // in flight while the cluster meets
      if (at(v) >= last) continue;
      const Window window = runs.window(start, at(v));
      grad[v] = runs.load(0, window);
      x[v] = runs.load(1, window);
    }
    mine = thread::forget(mine);  // where windows are costs less than the registers to keep it
    const float mean = a.rule.mean_of(c);
    Reduce all_reduce(shared.sums);
    Sums sums = Sums::none();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (at(v) < last) add<kWidth>(sums, runs.window(start, at(v)), grad[v], x[v], mean);
    }
    mine = thread::forget(mine);
    sums = all_reduce(sums, Sums::none(), PlusSums{});
    if (cluster_rank() == 0 && thread_index() == 0) a.rule.finish(c, sums);
    const Gradient gradient = a.rule.gradient(c, sums);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (at(v) < last) {
        store_gradient(runs, runs.window(start, at(v)), gradient, grad[v], x[v]);
      }
    }
    all_reduce.finish();
  }
};

using BackwardOnChip = OnChip<BackwardCall, BackwardOnChipKernel, 2>;

}  // namespace

extern const Rung kBackwardOnChip;
const Rung kBackwardOnChip = rung_of<BackwardOnChip, BatchNormBackward>({
    .name = "backward_on_chip",
    .from = "backward_two_pass",
    .idea = "a cluster a channel, whose gradient and input stay in its registers: one read of each",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
