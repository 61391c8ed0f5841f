// Idea: a group of a sample is one run of memory, which a cluster keeps in shared memory: grad and
// x are read once. Each warp has a share of its own, which two bulk copies bring; it adds up what
// channels have there, and writes dx of the same share when the cluster's total has come.
// From backward_groups: dx needs no second read, and no warp waits for more than its own share.
// Traffic: two reads, one write; 8 bytes a channel and share.
// Limits: groups without gaps of up to 440 KiB, whose channels begin at multiples of 16 bytes.
// Long: a second kernel adds up what shares have of a channel.
#include "kernels/batch_norm/groups.hpp"
#include "kernels/batch_norm/shares.hpp"

namespace ws::batch_norm {
namespace {

using Shape = ShareShapes<2>::Small;

#if WS_DEVICE_CODE

template <class T>
struct BackwardGroupsKernel {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  using ShareOf = ShareOfWarp<T, Shape, 2>;
  using AllReduce = cluster::AllReduce<Sums, kThreads>;
  struct Arguments {
    const T* grad;
    const T* x;
    T* dx;
    int64_t elements;  // of a group
    Shares shares;
    GroupRule of;
    Sums* parts;  // [samples, channels, shares.most]
  };
  struct SharedStorage {
    typename ShareOf::Storage share;
    typename AllReduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t set = block_index() / cluster_size();
    const int64_t from = set * a.elements;
    const ShareOf share(shared.share, a.shares, {a.grad + from, a.x + from});
    const Normal normal = a.of.normal(set);
    const int64_t first_channel = set % a.of.groups * a.of.width;
    const auto weight = [&](int channel) { return a.of.weight(first_channel + channel); };
    const float ahead = share.values(share.first_run(), weight);
    AllReduce all_reduce(shared.totals);  // the cluster meets
    share.wait();

    Sums total = Sums::none();
    share.each_run(ahead, weight, [&](int channel, int begin, int end, float of_channel) {
      const Sums sums =
          warp::all_reduce(sums_of_windows(share, begin, end, normal.mean), PlusSums{});
      total = PlusSums{}(total, {of_channel * sums.grad, of_channel * sums.product});
      if (lane_index() == 0) {
        const int64_t part = (set * a.of.width + channel) * a.shares.most;
        const int nth = share.number() - a.shares.first_of(channel);
        thread::store(a.parts + part + nth, Vec<Sums, 1>{{sums}});
      }
    });
    total = all_reduce.of_warps(total, Sums::none(), PlusSums{});

    share.each_run(ahead, weight, [&](int /*channel*/, int begin, int end, float of_channel) {
      store_gradients(share, begin, end, a.of.gradient(normal, of_channel, total),
                      [&](int w) { return a.dx + from + int64_t{w} * ShareOf::kWidth; });
    });
    all_reduce.finish();
  }
};

// A warp a channel.
struct FinishChannelsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    GroupRule of;
    Shares shares;
    const Sums* parts;
    int64_t samples;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int64_t c = block_index() * kWarps + warp_index();
    if (c >= a.of.channels) return;
    const int count = a.shares.count_of(static_cast<int>(c % a.of.width));
    a.of.finish(c, a.samples, count, [&](int64_t n, int64_t k) {
      return thread::load(a.parts + (n * a.of.channels + c) * a.shares.most + k);
    });
  }
};

#endif

struct BackwardGroupsOnChip {
  static constexpr size_t kBytesOfSums = 2 * sizeof(float);

  static bool supports(const BackwardCall& call, Why& why) {
    const Layout& layout = call.layout;
    const int64_t windows = windows_of_set(layout, call.dtype);
    return ShareShapes<2>::takes(layout, call.dtype, why) &&
           why.unless(windows <= Shape::kMostWindows, "holds ", Shape::kMostWindows,
                      " vectors of a group, not ", windows) &&
           why.unless(
               Shares::of<Shape>(layout, call.dtype).gap == 0 &&
                   (layout.sets == layout.per || layout.sample[0] == layout.per * layout.count) &&
                   (layout.per == 1 || layout.set[0] == layout.count),
               "takes groups that are each a run of memory");
  }
  static Shares shares_of(const BackwardCall& call) {
    return Shares::of<Shape>(call.layout, call.dtype);
  }
  static Workspace workspace(const BackwardCall& call) {
    const int64_t parts = call.rows.sets * shares_of(call).most;
    return {.bytes = static_cast<size_t>(parts) * kBytesOfSums};
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = BackwardGroupsKernel<T>;
      const Layout& layout = call.layout;
      const int blocks = Shape::blocks(layout, call.dtype);
      const Shares shares = shares_of(call);
      const GroupRule of = GroupRule::of(call);
      auto* parts = static_cast<Sums*>(context.workspace);
      launch<Kernel>(
          {.blocks = layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
          context.stream,
          {layout.as<const T>(kGrad), layout.as<const T>(kInput), layout.as<T>(kDx), layout.count,
           shares, of, parts});
      using Finish = FinishChannelsKernel;
      launch<Finish>({.blocks = divide_up(of.channels, int64_t{Finish::kWarps}),
                      .threads = Finish::kThreads,
                      .overlaps = true},
                     context.stream, {of, shares, parts, layout.sets / layout.per});
    });
  }
};

}  // namespace

extern const Rung kBackwardGroupsOnChip;
const Rung kBackwardGroupsOnChip = rung_of<BackwardGroupsOnChip, GroupNormBackward>({
    .name = "backward_groups_on_chip",
    .from = "backward_groups",
    .idea = "a cluster keeps grad and x of a group in shared memory, a share of its own each warp",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
