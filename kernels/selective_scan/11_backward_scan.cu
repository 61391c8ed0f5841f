// Idea: chunks of 256 steps side by side: segments of the states there and of their gradients back,
// folded along each line; then all gradients of a chunk from the state before it and the gradient
// behind it. Four channels of a block add up what they add to b and c, 32 before it is written.
// From backward_naive: no state of a step goes through memory, and no step waits for another.
// Traffic: u, delta, z, g, b and c twice, 16 bytes a state and chunk; of db and dc a 32nd of what
// channels add, in f32, written and read once.
// Limits: lines at multiples of 16 bytes.
#include "kernels/selective_scan/backward_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kBackwardScan;
const Rung kBackwardScan = rung_of<BackwardScan<InVectors>, SelectiveScanBackward>(
    {.name = "backward_scan",
     .from = "backward_naive",
     .idea = "chunks of all channels side by side: scans there and back"});

}  // namespace ws::selective_scan
#endif
