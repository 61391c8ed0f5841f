// Idea: a warp a channel, 32 bytes of steps a thread: neither a barrier nor shared memory, and half
// the scans. Four channels of a block read the same b and c at about the same time, from L1.
// From channel_scan: a scan is five shuffled steps for 512 steps of a line, not for 256 and a
// barrier; lanes hold the states.
// Traffic: as channel_scan's, but of b and c L2 sees a quarter.
// Limits: up to 32 states; each channel converts b and c anew.
#include "kernels/selective_scan/line_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kWarpScan;
const Rung kWarpScan =
    rung_of<InOnePiece<LineScan<LinePolicy<WarpTeam<1>, 4, 1, 16, InVectors, 3>>>, SelectiveScan>(
        {.name = "warp_scan",
         .from = "channel_scan",
         .idea = "a warp a channel: no barrier, states in lanes, b and c from L1"});

}  // namespace ws::selective_scan
#endif
