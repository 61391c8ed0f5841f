// Idea: where channels lie side by side, slices of grad and x come to the whole grid in a queue, so
// that both are read once.
// From backward_channels_last: blocks meet in memory instead of between launches, and what has to
// be found out for a slice is found out while two others are written.
// Traffic: two reads, one write; 8 bytes for a channel and block.
// Limits: 1536 rows an SM; whole vectors of channels.
#include "kernels/batch_norm/slice_queue.hpp"

namespace ws::batch_norm {

extern const Rung kBackwardChannelsLastQueue;
const Rung kBackwardChannelsLastQueue =
    rung_of<SliceQueue<BackwardCall, DifferentiateChannel>, BatchNormBackward>({
        .name = "backward_channels_last_queue",
        .from = "backward_channels_last",
        .idea = "slices of grad and x come to the whole grid in a queue, and are read once",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
