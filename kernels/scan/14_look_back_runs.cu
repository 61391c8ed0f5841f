// Idea: a lane takes 128 bytes that lie side by side, in shared memory, and a copy a warp takes the
// results from there: one scan by shuffles for eight vectors, no selects for where a scan begins.
// From look_back_queue: a third of the instructions, which were what its warps had no time for.
// Traffic: one read, one write, three passes through shared memory.
// Limits: as look_back_queue; results as wide as elements.
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
