// Idea: where the runs of a channel are no whole vectors, a block takes as many neighbouring
// channels as a vector has elements: whole vectors of grad and x in each sample.
// From backward_shares_on_chip: a share is a band of whole samples; sums by element of a vector
// become sums of channels at the end.
// Traffic: two reads, one write.
// Limits: contiguous NCHW, whole vectors of channels, a band of up to 108 KiB of each.
#include "kernels/batch_norm/bands.hpp"

namespace ws::batch_norm {

extern const Rung kBackwardBandsOnChip;
const Rung kBackwardBandsOnChip =
    rung_of<Bands<BackwardCall, DifferentiateChannel>, BatchNormBackward>({
        .name = "backward_bands_on_chip",
        .from = "backward_shares_on_chip",
        .idea = "a block takes grad and x of neighbouring channels that are whole vectors together",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
