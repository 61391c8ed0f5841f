// Idea: a group of a sample is one run of memory, which a cluster keeps in shared memory: grad and
// x are read once. Each warp has a share of its own, which two bulk copies bring; it adds up what
// channels have there, and writes dx of the same share when the cluster's total has come.
// From backward_groups: dx needs no second read, and no warp waits for more than its own share.
// Traffic: two reads, one write; 8 bytes a channel and share.
// Limits: groups without gaps of up to 440 KiB, whose channels begin at multiples of 16 bytes.
#include "kernels/batch_norm/group_shares.hpp"

namespace ws::batch_norm {
namespace {

struct BackwardGroupsOnChip {
  using Shape = ShareShapes<2>::Small;

  static bool supports(const BackwardCall& call, Why& why) {
    return GroupsOfShares::supports(call, Shape::kMostWindows, why) &&
           ShareShapes<2>::takes(call.layout, call.dtype, why);
  }
  static Workspace workspace(const BackwardCall& call) {
    return {.bytes = GroupsOfShares::bytes(call, Shares::of<Shape>(call.layout, call.dtype))};
  }
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Job = DifferentiateGroupShare<T>;
      using Kernel = ClusterOfSharesKernel<Job, Shape>;
      const Layout& layout = call.layout;
      const int blocks = Shape::blocks(layout, call.dtype);
      const Shares shares = Shares::of<Shape>(layout, call.dtype);
      const Job job{GroupRule::of(call), shares, static_cast<Sums*>(context.workspace)};
      launch<Kernel>(
          {.blocks = layout.sets * blocks, .threads = Kernel::kThreads, .cluster = blocks},
          context.stream, {runs_of<T>(layout, call.dtype), shares, job});
      GroupsOfShares::finish(call, job, context.stream);
    });
  }
};

}  // namespace

extern const Rung kBackwardGroupsOnChip;
const Rung kBackwardGroupsOnChip = rung_of<BackwardGroupsOnChip, GroupNormBackward>({
    .name = "backward_groups_on_chip",
    .from = "backward_groups",
    .idea = "a cluster keeps grad and x of a group in shared memory, a share of its own each warp",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
