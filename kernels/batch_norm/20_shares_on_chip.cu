// Idea: a cluster keeps a channel, or a group, in shared memory, a share each warp, which bulk
// copies bring, one of each run that it lies in: no thread computes an address to load from.
// From channel_queue: blocks do not stay, but four are on an SM and load, reduce and write in
// turns; a group's parameters are fetched once a run, not once a window.
// Traffic: one read, one write; 16 bytes between each two blocks of a cluster.
// Limits: sets of up to 1.7 MiB, whose runs begin at multiples of 16 bytes.
#include "kernels/batch_norm/shares.hpp"

namespace ws::batch_norm {
namespace {

using Shapes = ShareShapes<1>;

#if WS_DEVICE_CODE

template <class T, class Shape>
struct SharesKernel {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using ShareOf = ShareOfWarp<T, Shape, 1>;
  using Packed = typename ShareOf::Packed;
  using AllReduce = cluster::AllReduce<thread::Moments, kThreads>;
  struct Arguments {
    Runs<T> runs;
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
    const int64_t start = a.runs.start(set);
    const ShareOf share(shared.share, a.shares, {a.runs.data[0] + start});
    // A lane has those of a run; asked for now, they come while the share does.
    const int64_t channel = a.runs.number(set) * a.runs.width;
    const auto parameters = [&](int run) {
      const bool several = a.runs.width > 1;
      const int of = several ? run + lane_index() : 0;
      if (several && of * a.shares.run() >= share.last()) return Parameters{};
      return Parameters::of(a.weight, a.bias, channel + of);
    };
    Parameters of_lane = parameters(share.first_run());
    AllReduce all_reduce(shared.totals);  // the cluster meets
    share.wait();

    Running running;
    if (lane_index() < share.count()) {
      running = Running(share.load(0, share.first() + lane_index())[0]);
    }
#pragma unroll 4
    for (int w = share.first() + lane_index(); w < share.last(); w += kWarpSize) {
      running.add_more<kWidth>(share.load(0, w));
    }
    const auto moments = all_reduce(running.moments(), thread::Moments::none(), MergeMoments{});
    const Normal normal = a.statistics.normal(moments);

    T* const y = a.runs.out + start;
    const auto write = [&](int w, int64_t at, const Parameters& of) {
      const Packed x = share.load(0, w);
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = thread::fma(x[i] - normal.mean, of.weight, of.bias);
      thread::store(y + at, thread::convert<T>(out));
    };
    if (a.runs.width == 1) {
      const Parameters of{normal.rstd * of_lane.weight, of_lane.bias};
#pragma unroll 4
      for (int w = share.first() + lane_index(); w < share.last(); w += kWarpSize) {
        write(w, share.at(w), of);
      }
    } else {
      share.each_run([&](int run, int begin, int end) {
        const int nth = (run - share.first_run()) % kWarpSize;
        if (nth == 0 && begin > share.first()) of_lane = parameters(run);
        Parameters of = warp::shuffle(of_lane, nth);
        of.weight *= normal.rstd;
#pragma unroll 4
        for (int w = begin + lane_index(); w < end; w += kWarpSize) write(w, share.at(run, w), of);
      });
    }
    if (cluster_rank() == 0 && thread_index() == kThreads - 1) a.statistics.finish(set, moments);
    all_reduce.finish();
  }
};

#endif

struct SharesOnChip {
  static bool supports(const ForwardCall& call, Why& why) {
    return Shapes::takes(call.layout, call.dtype, why);
  }
  static void run(const ForwardCall& call, const Context& context) {
    if (call.layout.sets == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Shapes::with_shape(call.layout, call.dtype, [&]<class Shape>() {
        using Kernel = SharesKernel<T, Shape>;
        const int blocks = Shape::blocks(call.layout, call.dtype);
        launch<Kernel>(
            {.blocks = call.layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
            context.stream,
            {runs_of<T>(call.layout, call.dtype), Shares::of<Shape>(call.layout, call.dtype),
             call.weight, call.bias, statistics_of(call)});
      });
    });
  }
};

}  // namespace

extern const Rung kSharesOnChip;
const Rung kSharesOnChip =
    rung_of<SharesOnChip, BatchNormForward, BatchNormTraining, GroupNormForward>({
        .name = "shares_on_chip",
        .from = "channel_queue",
        .idea = "a cluster keeps a set in shared memory, a share each warp that bulk copies bring",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
