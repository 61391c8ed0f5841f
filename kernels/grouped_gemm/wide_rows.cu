// The kernels that store f32 of 16-bit operands.
#include "kernels/grouped_gemm/05_wgmma.cuh"

namespace ws::grouped_gemm {

template void run_rows<half, float>(const RowsCall&, const char*, int, Stream);
template void run_rows<bf16, float>(const RowsCall&, const char*, int, Stream);

}  // namespace ws::grouped_gemm
