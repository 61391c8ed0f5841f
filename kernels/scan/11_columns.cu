// The row of 11_columns.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/scan/11_columns.cuh"

namespace ws::scan {

extern const Rung kColumns;
const Rung kColumns = rung_of<Columns, Cumsum, Cumprod, Logcumsumexp, ScanMax, ScanMin>(
    {.name = "columns",
     .from = "look_back",
     .idea = "down columns: 16 bytes of them a thread, look-back for each along the rows"});

}  // namespace ws::scan
