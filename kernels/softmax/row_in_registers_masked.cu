// The kernels of 10_row_in_registers.cuh that take masks, a unit of their own.
#include "kernels/softmax/10_row_in_registers.cuh"

namespace ws::softmax {

template void RowInRegisters::run(const ScaleMaskSoftmax::Call&, const Context&);
template void RowInRegisters::run(const ScaleMaskSoftmaxBackward::Call&, const Context&);

}  // namespace ws::softmax
