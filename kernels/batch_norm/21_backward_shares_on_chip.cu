// Idea: a cluster keeps grad and x of a channel in shared memory, a share each warp, which bulk
// copies bring.
// From backward_queue: no thread computes an address to load from; blocks do not stay, but four are
// on an SM and load, reduce and write in turns.
// Traffic: two reads, one write; 8 bytes between each two blocks of a cluster.
// Limits: channels of up to 880 KiB, whose runs begin at multiples of 16 bytes.
#include "kernels/batch_norm/share_jobs.hpp"

namespace ws::batch_norm {

extern const Rung kBackwardSharesOnChip;
const Rung kBackwardSharesOnChip =
    rung_of<ClusterOfShares<BackwardCall, DifferentiateShare>, BatchNormBackward>({
        .name = "backward_shares_on_chip",
        .from = "backward_queue",
        .idea = "a cluster keeps grad and x of a channel in shared memory, a share each warp",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
