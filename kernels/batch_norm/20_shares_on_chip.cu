// Idea: a cluster keeps a channel, or a group, in shared memory, a share each warp, which bulk
// copies bring, one of each run that it lies in: no thread computes an address to load from.
// From channel_queue: blocks do not stay, but four are on an SM and load, reduce and write in
// turns; a group's parameters are fetched once a run, not once a window.
// Traffic: one read, one write; 16 bytes between each two blocks of a cluster.
// Limits: sets of up to 1.7 MiB, whose runs begin at multiples of 16 bytes.
#include "kernels/batch_norm/share_jobs.hpp"

namespace ws::batch_norm {

extern const Rung kSharesOnChip;
const Rung kSharesOnChip = rung_of<ClusterOfShares<ForwardCall, NormaliseShare>, BatchNormForward,
                                   BatchNormTraining, GroupNormForward>({
    .name = "shares_on_chip",
    .from = "channel_queue",
    .idea = "a cluster keeps a set in shared memory, a share each warp that bulk copies bring",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
