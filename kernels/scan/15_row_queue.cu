// The row of 15_row_queue.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/15_row_queue.cuh"

namespace ws::scan {

using RowQueueChosen = RowQueue<RowQueueShape<4, 8, 4, 3, true>>;

extern const Rung kRowQueue;
const Rung kRowQueue = rung_of<RowQueueChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "row_queue",
     .from = "look_back_queue",
     .idea = "blocks stay and draw rows, which lanes scan in runs where bulk copies put them",
     .arch = Arch::kSm90});

}  // namespace ws::scan
