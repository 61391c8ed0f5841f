// Idea: a channel over many blocks: one launch leaves the sums of each part, one merges them in
// their order and gives dweight and dbias, one writes dx, from the end.
// From backward_vector: few channels keep all SMs busy.
// Traffic: grad and x twice, dx once; of the second time some 30 MB come from L2.
// Limits: tensors without gaps that lie alike, channels in runs.
#include "kernels/batch_norm/part_sums.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct ApplyGradientKernel {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 2;
  struct Arguments {
    Runs<T> runs;
    Plan plan;
    GradientRule rule;
    const Sums* totals;  // [channels]
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Runs<T>& runs = a.runs;
    const int64_t item = grid_blocks() - 1 - block_index();
    const int64_t c = item / a.plan.parts;
    ptx::griddepcontrol_wait();
    const Gradient gradient = a.rule.gradient(c, thread::load(a.totals + c));
    apply_gradient<kThreads, kLoads>(runs, runs.start(c), a.plan.range(item, runs.windows),
                                     gradient);
  }
};

struct BackwardTwoPass {
  static constexpr int kBlocksOfSm = 8;
  static Plan plan(const BackwardCall& call) {
    return Plan::of(call.layout.sets, windows_of_set(call.layout, call.dtype), 256, kBlocksOfSm);
  }
  static bool supports(const BackwardCall& call, Why& why) {
    return runs_supported(call.layout, call.dtype, why) &&
           why.unless(call.layout.sets * plan(call).parts <= kMostBlocks, "takes up to ",
                      kMostBlocks, " parts");
  }
  static Workspace workspace(const BackwardCall& call) {
    return workspace_of(plan(call), call.layout.sets);
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Plan cut = plan(call);
      const Runs<T> runs = runs_of<T>(call.layout, call.dtype);
      const int64_t sets = call.layout.sets;
      const GradientRule rule = rule_of(call);
      auto* parts = static_cast<Sums*>(context.workspace);
      Sums* totals = parts + sets * cut.parts;
      using Parts = PartSumsKernel<T>;
      launch<Parts>({.blocks = sets * cut.parts, .threads = Parts::kThreads}, context.stream,
                    {runs, cut, rule.mean, sets, 1, parts});
      FinishGradient::launch_on({parts, totals, sets, cut.parts, rule}, context.stream);
      using Apply = ApplyGradientKernel<T>;
      launch<Apply>({.blocks = sets * cut.parts, .threads = Apply::kThreads, .overlaps = true},
                    context.stream, {runs, cut, rule, totals});
    });
  }
};

}  // namespace

extern const Rung kBackwardTwoPass;
const Rung kBackwardTwoPass = rung_of<BackwardTwoPass, BatchNormBackward>({
    .name = "backward_two_pass",
    .from = "backward_vector",
    .idea = "a channel over many blocks, sums merged in order; dx from the end",
});

}  // namespace ws::batch_norm
