// Idea: the sums of each channel of each sample are all that a group's gradient needs: weighed by
// their channels and added up in a group they make dx, added up through the samples dweight and
// dbias. One launch leaves them, one makes both, one writes dx, from the end.
// From backward_two_pass: a run is looked at alone; what batch_norm adds over samples is added over
// the channels of a group.
// Traffic: grad and x twice, dx once, 8 bytes a channel and sample.
// Limits: tensors without gaps that lie alike, channels in runs; short runs (7 x 7) leave most of a
// block idle.
#include "kernels/batch_norm/groups.hpp"
#include "kernels/batch_norm/part_sums.hpp"

namespace ws::batch_norm {
namespace {

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
      FinishGroupsKernel::launch_on({of, parts, nullptr, totals, rows / channels, cut.parts},
                                    context.stream);
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
