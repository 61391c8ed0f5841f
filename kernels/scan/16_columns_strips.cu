// The row of 16_columns_strips.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/16_columns_strips.cuh"

#if WS_DEVICE_CODE
namespace ws::scan {

// H200 2026-11-30, % of copy: sixteen warps of four rows, tiles of 16 KiB and tiles that are added
// up two ahead are up to 5 points slower, f32 and bf16; where clusters share a strip, three
// ahead 3. 2026-12-01, bf16 65536 x 512: a cluster of eight alone 66, clusters of four that share
// 72, of six 71, of five 70, of two 40; sixteen warps of four rows 69.
using ColumnsStripsChosen =
    ColumnsStrips<StripShape<8, 8, 16, 1, 8, 1>, StripShape<8, 8, 8, 1, 8, 1>,
                  StripShape<8, 8, 8, 2, 8, 16>, StripShape<8, 8, 8, 2, 4, 16>>;

extern const Rung kColumnsStrips;
const Rung kColumnsStrips =
    rung_of<ColumnsStripsChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
        {.name = "columns_strips",
         .from = "columns_staged",
         .idea = "a cluster's blocks walk down a strip of columns, and tell one another its totals",
         .arch = Arch::kSm90});

}  // namespace ws::scan
#endif
