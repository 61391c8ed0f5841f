// The row of 05_block_scan.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/05_block_scan.cuh"

namespace ws::scan {

extern const Rung kBlockScan;
const Rung kBlockScan = rung_of<BlockScan<256, 4>, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "block_scan",
     .from = "warp_scan",
     .idea = "four vectors of 16 bytes a thread, scanned where they lie; the next on their way"});

}  // namespace ws::scan
