// The row of 10_row_in_registers.cuh, whose instantiations are a unit of their own.
#include "kernels/softmax/10_row_in_registers.cuh"

namespace ws::softmax {

extern const Rung kRowInRegisters;
const Rung kRowInRegisters = rung_of<RowInRegisters, Softmax, LogSoftmax, ScaleMaskSoftmax,
                                     SoftmaxBackward, LogSoftmaxBackward, ScaleMaskSoftmaxBackward>(
    {.name = "row_in_registers",
     .from = "warp_registers",
     .idea = "1 to 512 threads a row, as the row asks for: many small blocks in address order",
     .file = "10_row_in_registers.cuh"});

}  // namespace ws::softmax
