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
    const int64_t channel = a.runs.number(set) * a.runs.width;
    const bool several = a.runs.width > 1;
    const auto parameters = [&](int run) {
      return Parameters::of(a.weight, a.bias, channel + (several ? run : 0));
    };
    const Parameters ahead = several ? share.values(share.first_run(), parameters) : parameters(0);
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
    const auto write = [&](int w, T* to, const Parameters& of) {
      const Packed x = share.load(0, w);
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = thread::fma(x[i] - normal.mean, of.weight, of.bias);
      thread::store(to, thread::convert<T>(out));
    };
    if (several) {
      share.each_run(ahead, parameters, [&](int run, int begin, int end, Parameters of) {
        of.weight *= normal.rstd;
        T* to = y + share.at(run, begin + lane_index());
#pragma unroll 2
        for (int w = begin + lane_index(); w < end; w += kWarpSize) {
          write(w, to, of);
          to += kWarpSize * kWidth;
        }
      });
    } else {
      const Parameters of{normal.rstd * ahead.weight, ahead.bias};
#pragma unroll 4
      for (int w = share.first() + lane_index(); w < share.last(); w += kWarpSize) {
        write(w, y + share.at(w), of);
      }
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
