// Idea: any strides: each step is loaded by itself.
// From backward_scan: nothing is asked of addresses.
// Traffic: where steps do not lie side by side, a sector of 32 bytes for an element.
// Limits: none.
#include "kernels/selective_scan/backward_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kBackwardAnyLayout;
const Rung kBackwardAnyLayout = rung_of<BackwardScan<OneByOne>, SelectiveScanBackward>(
    {.name = "backward_any_layout",
     .from = "backward_scan",
     .idea = "any strides, an element at a time"});

}  // namespace ws::selective_scan
#endif
