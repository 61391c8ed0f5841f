// Idea: groups of NHWC as columns: a thread keeps the sums of the channels of 16 bytes, of rows of
// one sample. These sums are all that is needed, as in backward_groups.
// From backward_groups: a block has the columns of a span, not a run.
// Traffic: grad and x twice, dx once, 8 bytes a channel, sample and part.
// Limits: rows of whole vectors from a multiple of 16 bytes on, any pitch; groups that are whole
// vectors together in 4 KiB of a row.
// Long: two kernels, for sums and for dx.
#include "kernels/batch_norm/group_columns.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct SpanSumsKernel {
  static constexpr int kThreads = SpanPlan::kThreads;
  static constexpr int kMinBlocks = 3;
  static constexpr int kLoads = 2;
  static constexpr int kWidth = row::kWidest<T>;
  using AddUp = AddUpSpan<T>;
  struct Arguments {
    Samples<const T> grad;
    Samples<const T> x;
    SpanPlan plan;
    GroupRule of;
    Sums* parts;      // [samples, channels, plan.parts]
    Sums* of_groups;  // [samples, groups, plan.parts]: of grad * weight
  };
  struct SharedStorage {
    SharedArray<Sums, SpanPlan::most_sums<T>()> columns;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SpanPlace<T> place(a.plan, block_index());
    float mean[kWidth] = {};
    thread::Tile<Sums, kWidth> own;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) own[i] = Sums::none();
    place.template each_row<kLoads, 2>(
        {a.grad, a.x},
        [&](const auto& /*first*/) {
          place.of_groups(mean,
                          [&](int g) { return a.of.mean(place.sample, place.first_group() + g); });
        },
        [&](int /*row*/, const auto& of) {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) own[i].add(of[0][i], of[1][i] - mean[i]);
        });
    const SharedSpan<Sums> columns = shared.columns.span();
    AddUp::groups(
        columns, place, own,
        [&](int c, const Sums& of_column) {
          const float w = a.of.weight(place.first_channel() + c);
          return Sums{w * of_column.grad, w * of_column.product};
        },
        [&](int g, int lane, const Sums& total) {
          if (lane != 0) return;
          const int64_t set = place.sample * a.of.groups + place.first_group() + g;
          thread::store(a.of_groups + set * a.plan.count() + place.part, Vec<Sums, 1>{{total}});
        });
    ptx::barrier_sync();
    for (int c = thread_index(); c < place.channels(); c += kThreads) {
      const int64_t channel = place.sample * a.of.channels + place.first_channel() + c;
      thread::store(a.parts + channel * a.plan.count() + place.part,
                    Vec<Sums, 1>{{AddUp::column(columns, a.plan, c)}});
    }
  }
};

template <class T>
struct SpanGradientKernel {
  static constexpr int kThreads = SpanPlan::kThreads;
  static constexpr int kMinBlocks = 2;
  static constexpr int kLoads = 2;
  static constexpr int kWidth = row::kWidest<T>;
  struct Arguments {
    Samples<const T> grad;
    Samples<const T> x;
    Samples<T> dx;
    SpanPlan plan;
    GroupRule of;
    const Sums* totals;  // [samples, groups]
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const SpanPlace<T> place(a.plan, grid_blocks() - 1 - block_index());
    ptx::griddepcontrol_wait();
    if (!place.mine) return;
    Gradient gradient[kWidth];
    place.template each_row<kLoads, 2>(
        {a.grad, a.x},
        [&](const auto& /*first*/) {
          place.of_groups(gradient, [&](int g) {
            const int64_t of_sample = place.first_group() + g;
            return a.of.gradient(a.of.normal(place.sample, of_sample), 1.0F,
                                 thread::load(a.totals + place.sample * a.of.groups + of_sample));
          });
          float weight[kWidth];
          of_channels(a.of.rule.weight, place.channel, weight, 1.0F);
#pragma unroll
          for (int i = 0; i < kWidth; ++i) gradient[i].scale *= weight[i];
        },
        [&](int row, const auto& of) {
          Vec<float, kWidth> out;
#pragma unroll
          for (int i = 0; i < kWidth; ++i) out[i] = gradient[i](of[0][i], of[1][i]);
          thread::store(a.dx.row(place.sample, row) + place.channel, thread::convert<T>(out));
        });
  }
};

struct BackwardGroupsChannelsLast {
  static SpanPlan plan(const BackwardCall& call) {
    return SpanPlan::to_read(call.layout, call.dtype, 2, 6);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    return SpanPlan::supported(call.layout, call.dtype, why) &&
           why.unless(plan(call).blocks(call.layout) <= kMostBlocks, "takes up to ", kMostBlocks,
                      " parts");
  }
  static Workspace workspace(const BackwardCall& call) {
    const int64_t parts = plan(call).count();
    return {.bytes = static_cast<size_t>(call.rows.sets * parts + call.layout.sets * (parts + 1)) *
                     (kTotalBytes / 2)};
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const SpanPlan cut = plan(call);
      const Layout& layout = call.layout;
      const int64_t samples = layout.sets / layout.per;
      const int64_t blocks = cut.blocks(layout);
      const auto grad = Samples<const T>::of(layout, kGrad);
      const auto x = Samples<const T>::of(layout, kInput);
      const GroupRule of = GroupRule::of(call);
      auto* parts = static_cast<Sums*>(context.workspace);
      Sums* of_groups = parts + call.rows.sets * cut.count();
      Sums* totals = of_groups + layout.sets * cut.count();
      launch<SpanSumsKernel<T>>({.blocks = blocks, .threads = SpanSumsKernel<T>::kThreads},
                                context.stream, {grad, x, cut, of, parts, of_groups});
      FinishGroupsKernel::launch_on({of, parts, of_groups, totals, samples, cut.count()},
                                    context.stream);
      using Apply = SpanGradientKernel<T>;
      launch<Apply>({.blocks = blocks, .threads = Apply::kThreads, .overlaps = true},
                    context.stream, {grad, x, Samples<T>::of(layout, kDx), cut, of, totals});
    });
  }
};

}  // namespace

extern const Rung kBackwardGroupsChannelsLast;
const Rung kBackwardGroupsChannelsLast = rung_of<BackwardGroupsChannelsLast, GroupNormBackward>({
    .name = "backward_groups_channels_last",
    .from = "backward_groups",
    .idea = "groups of NHWC: sums of a sample's columns, added up in groups and through samples",
});

}  // namespace ws::batch_norm
