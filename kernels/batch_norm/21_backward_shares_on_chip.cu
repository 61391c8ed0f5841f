// Idea: a cluster keeps grad and x of a channel in shared memory, a share each warp, which bulk
// copies bring.
// From backward_queue: no thread computes an address to load from; blocks do not stay, but four are
// on an SM and load, reduce and write in turns.
// Traffic: two reads, one write; 8 bytes between each two blocks of a cluster.
// Limits: channels of up to 880 KiB, whose runs begin at multiples of 16 bytes.
#include "kernels/batch_norm/shares.hpp"

namespace ws::batch_norm {
namespace {

using Shapes = ShareShapes<2>;

#if WS_DEVICE_CODE

template <class T, class Shape>
struct BackwardSharesKernel {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  using ShareOf = ShareOfWarp<T, Shape, 2>;
  using AllReduce = cluster::AllReduce<Sums, kThreads>;
  struct Arguments {
    Runs<T> runs;
    Shares shares;
    GradientRule rule;
  };
  struct SharedStorage {
    typename ShareOf::Storage share;
    typename AllReduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t c = block_index() / cluster_size();
    const int64_t start = a.runs.start(c);
    const ShareOf share(shared.share, a.shares, {a.runs.data[0] + start, a.runs.data[1] + start});
    const Normal normal{a.rule.mean_of(c), of_channel(a.rule.rstd, c)};
    const float weight = of_channel(a.rule.weight, c, 1.0F);
    AllReduce all_reduce(shared.totals);  // the cluster meets
    share.wait();

    const Sums sums = all_reduce(sums_of_windows(share, share.first(), share.last(), normal.mean),
                                 Sums::none(), PlusSums{});
    T* const out = a.runs.out + start;
    store_gradients(share, share.first(), share.last(), a.rule.gradient(normal, weight, sums),
                    [&](int w) { return out + share.at(w); });
    if (cluster_rank() == 0 && thread_index() == kThreads - 1) a.rule.finish(c, sums);
    all_reduce.finish();
  }
};

#endif

struct BackwardSharesOnChip {
  static bool supports(const BackwardCall& call, Why& why) {
    return Shapes::takes(call.layout, call.dtype, why);
  }
  static void run(const BackwardCall& call, const Context& context) {
    if (call.layout.sets == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Shapes::with_shape(call.layout, call.dtype, [&]<class Shape>() {
        using Kernel = BackwardSharesKernel<T, Shape>;
        const int blocks = Shape::blocks(call.layout, call.dtype);
        launch<Kernel>(
            {.blocks = call.layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
            context.stream,
            {runs_of<T>(call.layout, call.dtype), Shares::of<Shape>(call.layout, call.dtype),
             rule_of(call)});
      });
    });
  }
};

}  // namespace

extern const Rung kBackwardSharesOnChip;
const Rung kBackwardSharesOnChip = rung_of<BackwardSharesOnChip, BatchNormBackward>({
    .name = "backward_shares_on_chip",
    .from = "backward_queue",
    .idea = "a cluster keeps grad and x of a channel in shared memory, a share each warp",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
