// The row of 16_columns_queue.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/16_columns_queue.cuh"

namespace ws::scan {

using ColumnsQueueChosen = ColumnsQueue<
    ColumnsQueuePolicy<ColumnsQueueShape<8, 8, 6, 3, 2>, ColumnsQueueShape<8, 8, 6, 2, 2>,
                       ColumnsQueueShape<8, 8, 5, 2, 2>>>;

extern const Rung kColumnsQueue;
const Rung kColumnsQueue =
    rung_of<ColumnsQueueChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
        {.name = "columns_queue",
         .from = "columns_staged",
         .idea = "blocks stay and draw tiles, which tensor copies fetch ahead of the look-back",
         .arch = Arch::kSm90});

}  // namespace ws::scan
