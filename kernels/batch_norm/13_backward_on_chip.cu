// Idea: a cluster of up to 16 blocks owns a channel: grad and x lie in the registers of its threads
// while the blocks add up their sums through distributed shared memory.
// From backward_two_pass: grad and x are read once, in one launch.
// Traffic: two reads, one write; 8 bytes between each two blocks of a cluster.
// Limits: 16 blocks of 32 KiB of each, whose runs have no gaps.
#include <bit>

#include "kernels/batch_norm/runs.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/row/shape.hpp"
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
  struct SharedStorage {
    typename Reduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Runs<T>& runs = a.runs;
    const int64_t c = block_index() / cluster_size();
    const int64_t start = runs.start(c);
    const int64_t first = cluster_rank() * a.share;
    const int64_t last = first + a.share < runs.windows ? first + a.share : runs.windows;
    int64_t mine = first + thread_index();
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

struct BackwardOnChip {
  using Small = row::Shape<128, 2>;
  using Large = row::Shape<256, 8>;
  static constexpr int64_t kMostWindows = cluster::kMaxBlocks * Large::kBytes / 16;

  static bool supports(const BackwardCall& call, Why& why) {
    if (!runs_supported(call.layout, call.dtype, why)) return false;
    const int64_t windows = windows_of_set(call.layout, call.dtype);
    return why.unless(windows <= kMostWindows, "holds ", kMostWindows,
                      " vectors of a channel, not ", windows) &&
           why.unless(call.layout.sets <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " channels");
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (windows_of_set(call.layout, call.dtype) * 16 <= Small::kBytes) {
        launch_on<BackwardOnChipKernel<T, 128, 2, 8>, T>(call, Small::kBytes, context);
      } else {
        launch_on<BackwardOnChipKernel<T, 256, 8, 2>, T>(call, Large::kBytes, context);
      }
    });
  }

 private:
  template <class Kernel, class T>
  static void launch_on(const BackwardCall& call, int64_t part_bytes, const Context& context) {
    const Runs<T> runs = runs_of<T>(call.layout, call.dtype);
    const auto parts = static_cast<uint64_t>(divide_up(runs.windows * 16, part_bytes));
    const auto blocks = static_cast<int>(std::bit_ceil(parts));
    launch<Kernel>(
        {.blocks = call.layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
        context.stream, {runs, divide_up(runs.windows, int64_t{blocks}), rule_of(call)});
  }
};

}  // namespace

extern const Rung kBackwardOnChip;
const Rung kBackwardOnChip = rung_of<BackwardOnChip, BatchNormBackward>({
    .name = "backward_on_chip",
    .from = "backward_two_pass",
    .idea = "a cluster a channel, whose gradient and input stay in its registers: one read of each",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
