// The row of 15_one_pass.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/reduce/15_one_pass.cuh"

namespace ws::reduce {

// H200 2026-11-21, sum of 2^28 in f32 and bf16, % of copy: 104.2 and 100.8 with 2048 parts, 103.7
// and 93.8 with 8192, 88.5 and 85.9 with 32768; 512 x 8 104.0 and 92.2, 128 x 8 101.6 and 95.6
// (8192).
using OnePassChosen = OnePassPolicy<256, 8, 2048>;

extern const Rung kOnePass;
const Rung kOnePass = fast_rung_of<OnePass<OnePassChosen>, Sum, Mean, Prod, Amax, Amin, Argmax,
                                   Argmin, Any, All, VectorNorm, Dot>(
    {.name = "one_pass",
     .from = "block_per_row",
     .idea = "16-byte loads, long rows over many blocks, the last of which merges: one launch"});

}  // namespace ws::reduce
