// The row of 10_lanes_per_row.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/10_lanes_per_row.cuh"

namespace ws::scan {

extern const Rung kLanesPerRow;
const Rung kLanesPerRow = rung_of<LanesPerRow, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "lanes_per_row",
     .from = "block_scan",
     .idea = "8 or 32 lanes a row, with a carry from part to part"});

}  // namespace ws::scan
