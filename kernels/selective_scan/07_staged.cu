// Idea: back to steps in turn and states in lanes, as state_per_thread has them, but four states of
// two channels a lane: eight recurrences hide each other's latency, and a scan's instructions, two
// walks and the joins of five shuffles, are not needed. All that a step asks for is in shared
// memory before its turn: sizes and inflows computed once, b and c converted once for 64 channels.
// From channel_pairs: six issue slots of a lane for a state and step, not 18, and three more, not
// seven, for what a step has but once.
// Traffic: u, delta, z and out once; b and c once for 64 channels, from L2.
// Limits: up to 64 states; a line is as slow as its steps, so channels must fill the device.
#include "kernels/selective_scan/staged_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kStaged;
const Rung kStaged = rung_of<InOnePiece<StagedScan>, SelectiveScan>(
    {.name = "staged",
     .from = "channel_pairs",
     .idea = "steps in turn, states in lanes; what steps ask for is in shared memory before"});

}  // namespace ws::selective_scan
#endif
