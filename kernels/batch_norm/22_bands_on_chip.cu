// Idea: where the runs of a channel are no whole vectors, as many neighbouring channels as a vector
// has elements are: in each sample a band, which a block takes. A lane has the same vectors of all
// samples, whose elements belong to the same channels.
// From shares_on_chip: a share is a band of whole samples; sums by element of a vector become sums
// of channels at the end.
// Traffic: one read, one write.
// Limits: contiguous NCHW, whole vectors of channels, a band of up to 216 KiB.
#include "kernels/batch_norm/bands.hpp"

namespace ws::batch_norm {

extern const Rung kBandsOnChip;
const Rung kBandsOnChip =
    rung_of<Bands<ForwardCall, NormaliseChannel>, BatchNormForward, BatchNormTraining>({
        .name = "bands_on_chip",
        .from = "shares_on_chip",
        .idea =
            "a block takes neighbouring channels that are whole vectors together, as 8 of 7 x 7",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
