// Idea: any strides and any number of states: each step loaded by itself.
// From channel_scan: nothing is asked of addresses.
// Traffic: where steps do not lie side by side, a sector of 32 bytes for an element.
// Limits: none.
#include "kernels/selective_scan/line_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kAnyLayout;
const Rung kAnyLayout =
    rung_of<InOnePiece<LineScan<LinePolicy<BlockTeam<4, 1>, 1, 1, 4, OneByOne>>>, SelectiveScan>(
        {.name = "any_layout",
         .from = "channel_scan",
         .idea = "any strides and up to 256 states, an element at a time"});

}  // namespace ws::selective_scan
#endif
