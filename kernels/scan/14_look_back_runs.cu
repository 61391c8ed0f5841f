// look_back_runs
#include "kernels/scan/08_look_back_queue.cuh"

namespace ws::scan {

using LookBackRunsChosen = LookBackQueueRung<LookBackQueueShape<8, 8, 4, 6, 3, 2, true>>;

extern const Rung kLookBackRuns;
const Rung kLookBackRuns =
    rung_of<LookBackRunsChosen, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
        {.name = "look_back_runs",
         .from = "look_back_queue",
         .idea = "lanes scan runs of 128 bytes in shared memory, from where bulk copies write them",
         .arch = Arch::kSm90});

}  // namespace ws::scan
