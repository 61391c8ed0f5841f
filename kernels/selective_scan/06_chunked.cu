// Idea: a line is cut into parts, over as many warps as the device holds: each part's segments,
// then each part's outputs from the state that the parts before it leave.
// From warp_scan: few long channels keep all SMs busy. Two launches, no waiting: a part folds the
// segments before it by itself, in their order, so that bits do not depend on who was quick.
// Traffic: delta, u and b twice, 8 bytes a state and part.
// Limits: exponentials twice: for where there are too few channels, not for many.
#include "kernels/selective_scan/line_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kChunked;
const Rung kChunked =
    rung_of<InParts<LineScan<LinePolicy<WarpTeam<1>, 4, 1, 8, InVectors>>>, SelectiveScan>(
        {.name = "chunked",
         .from = "warp_scan",
         .idea = "parts of a line side by side: their segments, then their outputs"});

}  // namespace ws::selective_scan
#endif
