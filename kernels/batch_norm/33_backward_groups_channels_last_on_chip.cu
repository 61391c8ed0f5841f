// Idea: a cluster keeps grad and x of neighbouring groups of a sample in shared memory; each block
// leaves the sums of its channels, which a small launch adds up for dweight and dbias.
// From backward_groups_channels_last: grad and x are read once, and two launches are gone.
// Traffic: two reads, one write; 8 bytes a channel and block.
// Limits: what 16 blocks hold, 880 KiB a span of each input; rows of whole vectors.
#include "kernels/batch_norm/group_columns_kept.hpp"

namespace ws::batch_norm {
namespace {

template <class T, class Shape>
struct BackwardGroupsChannelsLastOnChipKernel {
  static constexpr int kThreads = Shape::kThreads;
  static constexpr int kMinBlocks = Shape::kMinBlocks;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Kept = KeptSpan<T, kThreads, 2>;
  using AddUp = AddUpSpan<T, kThreads>;
  struct Arguments {
    Samples<const T> grad;
    Samples<const T> x;
    Samples<T> dx;
    SpanPlan plan;
    GroupRule of;
    Sums* parts;  // [samples, channels, plan.parts]
  };
  struct SharedStorage {
    SpanTotals totals;
    SharedArray<Sums, SpanPlan::kMostGroups> of_groups;
  };

  static Arguments arguments(const BackwardCall& call, const SpanPlan& plan,
                             const Context& context) {
    return {Samples<const T>::of(call.layout, kGrad),
            Samples<const T>::of(call.layout, kInput),
            Samples<T>::of(call.layout, kDx),
            plan,
            GroupRule::of(call),
            static_cast<Sums*>(context.workspace)};
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SpanPlace<T, kThreads> place(a.plan, block_index());
    const Kept kept(dynamic_shared<T>(shared, Kept::elements(a.plan)), place, {a.grad, a.x});
    const bool has_group = thread_index() < place.groups();
    const int group = thread_index();
    float mean[kWidth] = {};
    place.of_groups(mean, [&](int g) { return a.of.mean(place.sample, place.first_group() + g); });
    thread::Tile<Sums, kWidth> sums;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[i] = Sums::none();
    kept.first_pass([&](const typename Kept::Packed(&of)[2]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[i].add(of[0][i], of[1][i] - mean[i]);
    });
    const SharedSpan<Sums> columns = kept.scratch();
    const int64_t first_channel = place.first_channel();
    AddUp::groups(
        columns, place, sums,
        [&](int c, const Sums& of_column) {
          const float w = a.of.weight(first_channel + c);
          return Sums{w * of_column.grad, w * of_column.product};
        },
        [&](int g, const Sums& total) { shared.totals.of_block[g] = total; });
    float rstd[kWidth] = {};
    float weight[kWidth] = {};
    place.of_groups(rstd, [&](int g) { return a.of.rstd(place.sample, place.first_group() + g); });
    if (place.mine) of_channels(a.of.rule.weight, place.channel, weight, 1.0F);
    ptx::syncwarp();
    ptx::cluster_sync();
    if (has_group) shared.of_groups[group] = shared.totals.total(group);
    ptx::syncwarp();
    ptx::cluster_arrive();  // nothing has been written yet that this would wait for
    ptx::barrier_sync();
    Sums of_group[kWidth] = {};
    place.of_groups(of_group, [&](int g) -> Sums { return shared.of_groups[g]; });
    Gradient gradient[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      gradient[i] = a.of.gradient({mean[i], rstd[i]}, weight[i], of_group[i]);
    }
    kept.second_pass(a.dx, [&](const typename Kept::Packed(&of)[2]) {
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = gradient[i](of[0][i], of[1][i]);
      return thread::convert<T>(out);
    });
    for (int c = thread_index(); c < place.groups() * a.plan.width; c += kThreads) {
      const int64_t channel = place.sample * a.of.channels + first_channel + c;
      thread::store(a.parts + channel * a.plan.parts + place.part,
                    Vec<Sums, 1>{{AddUp::column(columns, a.plan, c)}});
    }
    ptx::syncwarp();
    ptx::cluster_wait();  // the others have looked at this block's totals
  }
};

struct BackwardGroupsChannelsLastOnChip
    : GroupsOnChip<BackwardCall, 2, BackwardGroupsChannelsLastOnChipKernel> {
  static Workspace workspace(const BackwardCall& call) {
    const SpanPlan plan = Shapes::choice(call.layout, call.dtype).plan;
    return {.bytes = static_cast<size_t>(call.rows.sets * plan.parts) * sizeof(Sums)};
  }
  static void run(const BackwardCall& call, const Context& context) {
    const SpanChoice choice = Shapes::choice(call.layout, call.dtype);
    run_as(call, choice, context);
    FinishGroupsKernel::launch_on({GroupRule::of(call), static_cast<const Sums*>(context.workspace),
                                   nullptr, call.layout.sets / call.layout.per, choice.plan.parts},
                                  context.stream);
  }
};

}  // namespace

extern const Rung kBackwardGroupsChannelsLastOnChip;
const Rung kBackwardGroupsChannelsLastOnChip =
    rung_of<BackwardGroupsChannelsLastOnChip, GroupNormBackward>({
        .name = "backward_groups_channels_last_on_chip",
        .from = "backward_groups_channels_last",
        .idea = "NHWC: a cluster keeps grad and x of neighbouring groups in shared memory",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
