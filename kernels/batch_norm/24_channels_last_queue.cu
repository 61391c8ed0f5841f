// Idea: where channels lie side by side, slices of them come to the whole grid in a queue, so that
// x is read once. Blocks, which have rows of all slices, meet in memory; what has to be found out
// for a slice is found out while two others are written.
// From channels_last_on_chip: tensors of any number of channels, and nobody waits for a meeting.
// Traffic: one read, one write; 16 bytes for a channel and block.
// Limits: 3072 rows an SM; whole vectors of channels.
#include "kernels/batch_norm/slice_queue.hpp"

namespace ws::batch_norm {

extern const Rung kChannelsLastQueue;
const Rung kChannelsLastQueue =
    rung_of<SliceQueue<ForwardCall, NormaliseChannel>, BatchNormForward, BatchNormTraining>({
        .name = "channels_last_queue",
        .from = "channels_last_on_chip",
        .idea = "slices of channels come to the whole grid in a queue, and are read once",
        .arch = Arch::kSm90,
    });

}  // namespace ws::batch_norm
