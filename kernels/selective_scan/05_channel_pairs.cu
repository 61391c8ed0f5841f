// Idea: two channels a warp: b and c of a step are loaded and converted once for both, and there
// are two scans whose shuffles do not wait for each other.
// From warp_scan: half the loads of b and c, which are most of what a warp asks L1 for.
// Traffic: as warp_scan's.
// Limits: groups of an even number of channels, up to 32 states.
#include "kernels/selective_scan/line_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kChannelPairs;
const Rung kChannelPairs =
    rung_of<InOnePiece<LineScan<LinePolicy<WarpTeam<2>, 4, 2, 8, InVectors>>>, SelectiveScan>(
        {.name = "channel_pairs",
         .from = "warp_scan",
         .idea = "two channels a warp share b and c"});

}  // namespace ws::selective_scan
#endif
