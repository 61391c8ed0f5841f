// Idea: parts of a line side by side, as chunked has them, each staged: where channels are few, and
// long.
// From staged: as many parts as fill the device; a part folds the segments before it.
// Traffic: delta, u and b twice, 8 bytes a state and part.
// Limits: exponentials twice; up to 64 states.
#include "kernels/selective_scan/staged_scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

extern const Rung kStagedParts;
const Rung kStagedParts = rung_of<InParts<StagedScan>, SelectiveScan>(
    {.name = "staged_parts",
     .from = "staged",
     .idea = "parts of a line side by side, as chunked's, each staged"});

}  // namespace ws::selective_scan
#endif
