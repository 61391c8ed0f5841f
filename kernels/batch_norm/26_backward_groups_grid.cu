// Idea: grad and x of a group that no cluster holds lie in the shared memory of as many SMs as it
// takes, two blocks on each; blocks stay, and tell each other sums through L2.
// From backward_groups_on_chip: up to all SMs hold a group, 14 MiB of each input.
// Traffic: two reads, one write; 8 bytes a channel and share.
// Limits: groups without gaps that fit, whose channels begin at multiples of 16 bytes.
#include "kernels/batch_norm/grid.hpp"
#include "kernels/batch_norm/group_shares.hpp"

namespace ws::batch_norm {
namespace {

struct BackwardGroupsGrid {
  using Shape = GridShape<2, true>;

  static bool supports(const BackwardCall& call, Why& why) {
    return GroupsOfShares::supports(call, Shape::most_windows(), why);
  }
  static Workspace workspace(const BackwardCall& call) {
    const GridPlan plan = GridPlan::of<Shape>(call.layout, call.dtype);
    Workspace workspace = GridWords::workspace(plan);
    workspace.bytes += GroupsOfShares::bytes(call, plan.shares<Shape>(call.layout, call.dtype));
    return workspace;
  }
  static void run(const BackwardCall& call, const Context& context) {
    const GridPlan plan = GridPlan::of<Shape>(call.layout, call.dtype);
    auto* const parts = reinterpret_cast<Sums*>(static_cast<std::byte*>(context.workspace) +
                                                GridWords::workspace(plan).bytes);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Job = DifferentiateGroupShare<T>;
      const Job job{GroupRule::of(call), plan.shares<Shape>(call.layout, call.dtype), parts};
      GridKernel<Job, Shape>::launch_on(call.layout, call.dtype, plan, job, context);
      GroupsOfShares::finish(call, job, context.stream);
    });
  }
};

}  // namespace

extern const Rung kBackwardGroupsGrid;
const Rung kBackwardGroupsGrid = rung_of<BackwardGroupsGrid, GroupNormBackward>({
    .name = "backward_groups_grid",
    .from = "backward_groups_on_chip",
    .idea = "grad and x of a group in the shared memory of as many SMs as it takes",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
