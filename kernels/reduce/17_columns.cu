// The row of 17_columns.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/reduce/17_columns.cuh"

namespace ws::reduce {

// H200 2026-11-21, columns of 16384 x 16384 in f32 and bf16, % of copy: 102.0 and 94.1 with 1024
// blocks, 99.8 and 81.1 with 4096, 90.2 and 50.4 with 16384; 512 threads 96.1 and 83.1 (2048).
using ColumnsChosen = ColumnsPolicy<256, 8, 1024>;

extern const Rung kColumns;
const Rung kColumns = fast_rung_of<Columns<ColumnsChosen>, Sum, Mean, Prod, Amax, Amin, Argmax,
                                   Argmin, Any, All, VectorNorm>(
    {.name = "columns",
     .from = "strided",
     .idea = "a thread owns 16 bytes of columns and walks down; parts merged by the last block"});

}  // namespace ws::reduce
