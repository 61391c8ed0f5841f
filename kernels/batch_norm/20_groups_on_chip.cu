// Idea: a group of a sample is one run of memory, which a cluster keeps in shared memory. Each warp
// has a share of its own, which a bulk copy brings: no thread computes an address to load from, and
// a channel's parameters are fetched once a share, not once a window.
// From channel_on_chip: memory that is on its way takes no registers, so that four blocks an SM
// load, reduce and write in turns.
// Traffic: one read, one write.
// Limits: groups without gaps of up to 880 KiB, whose channels begin at multiples of 16 bytes.
#include "kernels/batch_norm/group_shares.hpp"

namespace ws::batch_norm {
namespace {

using Shape = GroupShape<1>;

#if WS_DEVICE_CODE

template <class T>
struct GroupsKernel {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using ShareOf = GroupShare<T, 1>;
  using Packed = typename ShareOf::Packed;
  using AllReduce = cluster::AllReduce<thread::Moments, kThreads>;
  struct Arguments {
    const T* x;
    T* y;
    int64_t elements;  // of a group
    int64_t width;     // channels of a group
    Shares shares;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {
    typename ShareOf::Storage share;
    typename AllReduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t set = block_index() / cluster_size();
    const int64_t from = set * a.elements;
    const ShareOf share(shared.share, a.shares, {a.x + from});
    const int64_t first_channel = set % a.statistics.per * a.width;
    AllReduce all_reduce(shared.totals);  // the cluster meets
    share.wait();

    Running running;
#pragma unroll 2
    for (int w = share.first() + lane_index(); w < share.last(); w += kWarpSize) {
      running.add_all<kWidth>(share.load(0, w));
    }
    const auto moments = all_reduce(running.moments(), thread::Moments::none(), MergeMoments{});
    const Normal normal = a.statistics.normal(moments);

    share.each_channel([&](int channel, int begin, int end) {
      const Parameters of = Parameters::of(a.weight, a.bias, first_channel + channel);
      const float scale = normal.rstd * of.weight;
#pragma unroll 2
      for (int w = begin + lane_index(); w < end; w += kWarpSize) {
        const Packed x = share.load(0, w);
        Vec<float, kWidth> y;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = thread::fma(x[i] - normal.mean, scale, of.bias);
        thread::store(a.y + from + int64_t{w} * kWidth, thread::convert<T>(y));
      }
    });
    if (cluster_rank() == 0 && thread_index() == kThreads - 1) a.statistics.finish(set, moments);
    all_reduce.finish();
  }
};

#endif

struct GroupsOnChip {
  static bool supports(const ForwardCall& call, Why& why) {
    return Shape::takes(call.layout, call.dtype, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = GroupsKernel<T>;
      const Layout& layout = call.layout;
      const int blocks = Shape::blocks(layout, call.dtype);
      launch<Kernel>(
          {.blocks = layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
          context.stream,
          {layout.as<const T>(kX), layout.as<T>(kY), layout.count, layout.width,
           Shares::of<Shape>(layout, call.dtype), call.weight, call.bias, statistics_of(call)});
    });
  }
};

}  // namespace

extern const Rung kGroupsOnChip;
const Rung kGroupsOnChip = rung_of<GroupsOnChip, GroupNormForward>({
    .name = "groups_on_chip",
    .from = "channel_on_chip",
    .idea = "a cluster keeps a group in shared memory, a share each warp that a bulk copy brings",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
