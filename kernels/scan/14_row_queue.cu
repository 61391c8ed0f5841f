// The row of 14_row_queue.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/14_row_queue.cuh"

namespace ws::scan {

// H200 2026-11-30, % of copy, f32 / bf16: rows of 16 KiB 95.0 / - and of 8 KiB - / 93.7 with the
// first, 94.7 / 92.8 with the second; of 64 KiB 92.2, 94.7. Two blocks of eight warps spill.
using RowQueueChosen = RowQueue<RowQueueShape<4, 8, 4, 3>, RowQueueShape<8, 8, 6, 1>>;

extern const Rung kRowQueue;
const Rung kRowQueue = rung_of<RowQueueChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "row_queue",
     .from = "look_back_queue",
     .idea = "blocks stay and draw rows, which lanes scan in runs of 128 bytes in shared memory",
     .arch = Arch::kSm90});

}  // namespace ws::scan
