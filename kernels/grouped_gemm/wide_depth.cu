// The kernels that store f32 of 16-bit operands.
#include "kernels/grouped_gemm/06_wgmma_weight.cuh"

namespace ws::grouped_gemm {

template void run_depth<half, float>(const DepthCall&, const char*, int, Stream);
template void run_depth<bf16, float>(const DepthCall&, const char*, int, Stream);

}  // namespace ws::grouped_gemm
