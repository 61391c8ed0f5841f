// Idea: groups of NHWC as columns: a thread owns the channels of 16 bytes and walks down rows of
// one sample; what it has added up of them is added up in groups at the end.
// From channels_last: rows are those of a sample, and a total is of neighbouring columns; distances
// in a group are measured from the mean of the rows that a block's threads begin with, so that sums
// of its columns and rows are plain.
// Traffic: two reads, one write; of the second read some 30 MB come from L2.
// Limits: rows of whole vectors from a multiple of 16 bytes on, any pitch; groups that are whole
// vectors together in 4 KiB of a row.
// Long: two kernels, for moments and for what becomes of x.
#include "kernels/batch_norm/group_columns.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct SpanMomentsKernel {
  static constexpr int kThreads = SpanPlan::kThreads;
  static constexpr int kMinBlocks = 3;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = row::kWidest<T>;
  struct Arguments {
    Samples<const T> x;
    SpanPlan plan;
    int64_t groups;            // of a sample
    thread::Moments* moments;  // [samples, groups, parts]
  };
  struct SharedStorage {
    SharedArray<float, SpanPlan::kMostGroups> pivots;
    SharedArray<Sums, SpanPlan::most_sums<T>()> columns;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SpanPlace<T> place(a.plan, block_index());
    using AddUp = AddUpSpan<T>;
    const SharedSpan<Sums> columns = shared.columns.span();
    float pivot[kWidth] = {};
    thread::Tile<Sums, kWidth> sums;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] = Sums::none();
    place.template each_row<kLoads, 1>(
        {a.x},
        [&](const auto& first) {
          AddUp::find_pivots(columns, place, first[0][0], shared.pivots);
          if (!place.mine) return;
          place.each_column([&](int i, int g, bool /*begins*/) { pivot[i] = shared.pivots[g]; });
        },
        [&](int /*row*/, const auto& x) {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) {
            const float away = x[0][i] - pivot[i];
            sums[i].add(away, away);
          }
        });
    AddUp::groups(
        columns, place, sums, [](int /*c*/, const Sums& of_column) { return of_column; },
        [&](int g, int lane, const Sums& total) {
          if (lane != 0) return;
          const float from = shared.pivots[g];
          const auto moments =
              thread::from_pivot(place.count(place.part), from, total.grad, total.product);
          const int64_t set = place.sample * a.groups + place.first_group() + g;
          thread::store(a.moments + set * a.plan.count() + place.part,
                        Vec<thread::Moments, 1>{{moments}});
        });
  }
};

template <class T>
struct NormaliseSpanKernel {
  static constexpr int kThreads = SpanPlan::kThreads;
  static constexpr int kMinBlocks = 3;
  static constexpr int kLoads = 4;
  static constexpr int kWidth = row::kWidest<T>;
  struct Arguments {
    Samples<const T> x;
    Samples<T> y;
    SpanPlan plan;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const SpanPlace<T> place(a.plan, grid_blocks() - 1 - block_index());
    ptx::griddepcontrol_wait();
    if (!place.mine) return;
    AffineColumns<T> affine;
    place.template each_row<kLoads, 1>(
        {a.x},
        [&](const auto& /*first*/) {
          Normal normal[kWidth];
          place.of_groups(normal, [&](int g) {
            return a.statistics.kept(place.sample, place.first_group() + g);
          });
          affine = AffineColumns<T>(a.weight, a.bias, place.channel);
          affine.normalise([&](int i) { return normal[i]; });
        },
        [&](int row, const auto& x) {
          thread::store(a.y.row(place.sample, row) + place.channel, affine(x[0]));
        });
  }
};

struct GroupsChannelsLast {
  static SpanPlan plan(const ForwardCall& call) {
    return SpanPlan::to_read(call.layout, call.dtype, 4, 6);
  }
  static bool supports(const ForwardCall& call, Why& why) {
    return SpanPlan::supported(call.layout, call.dtype, why) &&
           why.unless(plan(call).blocks(call.layout) <= kMostBlocks, "takes up to ", kMostBlocks,
                      " parts");
  }
  static Workspace workspace(const ForwardCall& call) {
    return {.bytes = static_cast<size_t>(call.layout.sets * plan(call).count()) * kTotalBytes};
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const SpanPlan cut = plan(call);
      const Layout& layout = call.layout;
      const int64_t blocks = cut.blocks(layout);
      const Statistics statistics = statistics_of(call);
      const auto x = Samples<const T>::of(layout, kX);
      auto* moments = static_cast<thread::Moments*>(context.workspace);
      launch<SpanMomentsKernel<T>>({.blocks = blocks, .threads = SpanMomentsKernel<T>::kThreads},
                                   context.stream, {x, cut, layout.per, moments});
      FinishStatistics::launch_on({moments, nullptr, layout.sets, cut.count(), statistics},
                                  context.stream);
      using Normalise = NormaliseSpanKernel<T>;
      launch<Normalise>({.blocks = blocks, .threads = Normalise::kThreads, .overlaps = true},
                        context.stream,
                        {x, Samples<T>::of(layout, kY), cut, call.weight, call.bias, statistics});
    });
  }
};

}  // namespace

extern const Rung kGroupsChannelsLast;
const Rung kGroupsChannelsLast = rung_of<GroupsChannelsLast, GroupNormForward>({
    .name = "groups_channels_last",
    .from = "channels_last",
    .idea = "groups of NHWC: columns of a sample, added up in groups at the end",
});

}  // namespace ws::batch_norm
