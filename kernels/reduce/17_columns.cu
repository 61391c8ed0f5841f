// The row of 17_columns.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/reduce/17_columns.cuh"

namespace ws::reduce {

extern const Rung kColumns;
const Rung kColumns = fast_rung_of<Columns<ColumnsPolicy<256, 8, 4096>>, Sum, Mean, Prod, Amax,
                                   Amin, Argmax, Argmin, Any, All, VectorNorm>(
    {.name = "columns",
     .from = "strided",
     .idea = "a thread owns 16 bytes of columns and walks down; parts merged by the last block"});

}  // namespace ws::reduce
