// Idea: grad and x of a channel that no cluster holds lie in the shared memory of as many SMs as it
// takes; blocks stay, and tell each other sums through L2.
// From backward_shares_on_chip: up to all SMs hold a channel, 14 MiB of each input; what does not
// fit is read again, what was read last first.
// Traffic: two reads, one write; 16 bytes from each block of a channel to each, in L2.
// Limits: channels whose runs begin at multiples of 16 bytes.
#include "kernels/batch_norm/grid.hpp"

namespace ws::batch_norm {

extern const Rung kBackwardGridOnChip;
const Rung kBackwardGridOnChip =
    rung_of<GridOfShares<BackwardCall, DifferentiateShare>, BatchNormBackward>({
        .name = "backward_grid_on_chip",
        .from = "backward_shares_on_chip",
        .idea = "grad and x of a channel in the shared memory of as many SMs as it takes",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
