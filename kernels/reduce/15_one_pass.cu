// The row of 15_one_pass.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/reduce/15_one_pass.cuh"

namespace ws::reduce {

extern const Rung kOnePass;
const Rung kOnePass = fast_rung_of<OnePass<OnePassPolicy<256, 8, 4096>>, Sum, Mean, Prod, Amax,
                                   Amin, Argmax, Argmin, Any, All, VectorNorm, Dot>(
    {.name = "one_pass",
     .from = "block_per_row",
     .idea = "16-byte loads, long rows over many blocks, the last of which merges: one launch"});

}  // namespace ws::reduce
