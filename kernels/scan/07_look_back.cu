// The row of 07_look_back.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/07_look_back.cuh"

namespace ws::scan {

// Not yet measured: two tiles of 32 KiB, or three of 16, on an SM: what its registers hold.
using LookBackChosen = LookBackPolicy<LookBackShape<512, 4, 2>, LookBackShape<256, 4, 3>>;

inline constexpr Seed kLookBackSeeds[] = {
    {.name = "scan_decoupled_look_back", .operation = "cumsum", .dtypes = kFloats}};

extern const Rung kLookBack;
const Rung kLookBack =
    rung_of<LookBackRung<LookBackChosen>, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
        {.name = "look_back",
         .from = "reduce_then_scan",
         .idea = "decoupled look-back in groups of tiles: one read, the same bits in each run",
         .seeds = kLookBackSeeds});

}  // namespace ws::scan
