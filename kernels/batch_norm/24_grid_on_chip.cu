// Idea: a set that no cluster holds lies in the shared memory of as many SMs as it takes. Blocks
// stay, and tell each other totals through L2, in words that are zero until they have come: no
// fence waits for what a block has written, and no block for others than those of its set.
// From shares_on_chip: up to all SMs hold a set, 28 MiB; what does not fit is read again, what was
// read last first. Two blocks are on an SM, and load, reduce and write in turns.
// Traffic: one read, one write; 16 bytes from each block of a set to each, in L2.
// Limits: sets whose runs begin at multiples of 16 bytes.
#include "kernels/batch_norm/grid.hpp"

namespace ws::batch_norm {

extern const Rung kGridOnChip;
const Rung kGridOnChip = rung_of<GridOfShares<ForwardCall, NormaliseShare>, BatchNormForward,
                                 BatchNormTraining, GroupNormForward>({
    .name = "grid_on_chip",
    .from = "shares_on_chip",
    .idea = "a set in the shared memory of as many SMs as it takes, which meet through L2",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
