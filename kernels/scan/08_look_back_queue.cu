// The row of 08_look_back_queue.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/08_look_back_queue.cuh"

namespace ws::scan {

// H200 2026-11-23, 2^28 elements, % of copy f32 / bf16: 87 / 87. Tiles of 64 KiB 84 / 54 (spills),
// of 8 warps by 8 vectors 88 / 76; with one warp that looks back 74 / 77, with three 84 / 85.
using LookBackQueueChosen = LookBackQueueRung<LookBackQueueShape<16, 4, 4, 6, 3, 2>>;

extern const Rung kLookBackQueue;
const Rung kLookBackQueue =
    rung_of<LookBackQueueChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
        {.name = "look_back_queue",
         .from = "look_back",
         .idea = "blocks stay and draw tiles, which bulk copies fetch ahead of the look-back",
         .arch = Arch::kSm90});

}  // namespace ws::scan
