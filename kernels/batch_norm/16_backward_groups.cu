// Idea: the sums of each channel of each sample are all that a group's gradient needs: weighed by
// their channels and added up in a group they make dx, added up through the samples dweight and
// dbias. One launch leaves them, one makes both, one writes dx, from the end.
// From backward_two_pass: a run is looked at alone; what batch_norm adds over samples is added over
// the channels of a group.
// Traffic: grad and x twice, dx once, 8 bytes a channel and sample.
// Limits: tensors without gaps that lie alike, channels in runs; short runs (7 x 7) leave most of a
// block idle.
// Long: two kernels, each with the rule of groups.
#include "kernels/batch_norm/groups.hpp"
#include "kernels/batch_norm/part_sums.hpp"

namespace ws::batch_norm {
namespace {

// A warp a group of a sample, then a warp a channel.
struct FinishGroupsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    GroupRule of;
    const Sums* parts;  // [samples, channels, count]
    Sums* totals;       // [samples, groups]: of grad * weight
    int64_t samples;
    int64_t count;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const GroupRule& of = a.of;
    const int64_t sets = a.samples * of.groups;
    const int64_t item = block_index() * kWarps + warp_index();
    if (item < sets) {
      const int64_t each = of.width * a.count;
      const int64_t first = item % of.groups * of.width;
      const Sums total = GroupRule::sum(each, [&](int64_t i) {
        const float w = of.weight(first + i / a.count);
        const Sums part = thread::load(a.parts + item * each + i);
        return Sums{w * part.grad, w * part.product};
      });
      if (lane_index() == 0) thread::store(a.totals + item, Vec<Sums, 1>{{total}});
    } else if (item < sets + of.channels) {
      const int64_t c = item - sets;
      of.finish(c, a.samples, a.count, [&](int64_t n, int64_t k) {
        return thread::load(a.parts + (n * of.channels + c) * a.count + k);
      });
    }
  }
};

template <class T>
struct ApplyGroupGradientKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 2;
  struct Arguments {
    Runs<T> runs;
    Plan plan;
    GroupRule of;
    const Sums* totals;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t item = grid_blocks() - 1 - block_index();
    const int64_t row = item / a.plan.parts;  // a channel of a sample
    const int64_t set = row / a.of.width;
    ptx::griddepcontrol_wait();
    const Sums total = thread::load(a.totals + set);
    const Gradient gradient =
        a.of.gradient(a.of.normal(set), a.of.weight(row % a.of.channels), total);
    apply_gradient<kThreads, kLoads>(a.runs, a.runs.start(row), a.plan.range(item, a.runs.windows),
                                     gradient);
  }
};

struct BackwardGroups {
  static constexpr int kBlocksOfSm = 8;
  static Plan plan(const BackwardCall& call) {
    return Plan::of(call.rows.sets, windows_of_set(call.rows, call.dtype), 256, kBlocksOfSm);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    return runs_supported(call.rows, call.dtype, why) &&
           why.unless(call.rows.sets * plan(call).parts <= kMostBlocks, "takes up to ", kMostBlocks,
                      " parts");
  }
  static Workspace workspace(const BackwardCall& call) {
    return workspace_of(plan(call), call.rows.sets);  // no more groups than channels
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Plan cut = plan(call);
      const Runs<T> runs = runs_of<T>(call.rows, call.dtype);
      const int64_t rows = call.rows.sets;
      const int64_t channels = call.rows.per;
      const GroupRule of = GroupRule::of(call);
      auto* parts = static_cast<Sums*>(context.workspace);
      Sums* totals = parts + rows * cut.parts;
      using Parts = PartSumsKernel<T>;
      launch<Parts>({.blocks = rows * cut.parts, .threads = Parts::kThreads}, context.stream,
                    {runs, cut, of.rule.mean, of.groups, of.width, parts});
      launch<FinishGroupsKernel>(
          {.blocks = divide_up(call.layout.sets + channels, int64_t{FinishGroupsKernel::kWarps}),
           .threads = FinishGroupsKernel::kThreads,
           .overlaps = true},
          context.stream, {of, parts, totals, rows / channels, cut.parts});
      using Apply = ApplyGroupGradientKernel<T>;
      launch<Apply>({.blocks = rows * cut.parts, .threads = Apply::kThreads, .overlaps = true},
                    context.stream, {runs, cut, of, totals});
    });
  }
};

}  // namespace

extern const Rung kBackwardGroups;
const Rung kBackwardGroups = rung_of<BackwardGroups, GroupNormBackward>({
    .name = "backward_groups",
    .from = "backward_two_pass",
    .idea =
        "sums of each channel of each sample, added up in groups for dx, in samples for dweight",
});

}  // namespace ws::batch_norm
