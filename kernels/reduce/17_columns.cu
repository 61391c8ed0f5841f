// The row of 17_columns.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/reduce/17_columns.cuh"

namespace ws::reduce {

// H200 2026-11-21, columns of 16384 x 16384 in f32 and bf16, % of copy: 103.3 and 99.1 with two
// blocks an SM, 102.4 and 97.1 with three, all that fit, 102 and 94 with eight, and 90 and 50 with
// 124; one of 512 threads 104.4 and 98.7; four of half the loads 103.4 and 98.7.
using ColumnsChosen = ColumnsPolicy<256, 8, 2>;

extern const Rung kColumns;
const Rung kColumns = fast_rung_of<Columns<ColumnsChosen>, Sum, Mean, Prod, Amax, Amin, Argmax,
                                   Argmin, Any, All, VectorNorm>(
    {.name = "columns",
     .from = "strided",
     .idea = "a thread owns 16 bytes of columns and walks down; parts merged by the last block"});

}  // namespace ws::reduce
