// The row of 14_columns.cuh, whose instantiations are a unit of their own.
#include "kernels/softmax/14_columns.cuh"

namespace ws::softmax {

extern const Rung kColumns;
const Rung kColumns = rung_of<Columns, Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward>(
    {.name = "columns",
     .from = "warp_per_row",
     .idea = "neighbouring lanes take neighbouring columns, few threads share one",
     .file = "14_columns.cuh"});

}  // namespace ws::softmax
