#include "kernels/grouped_gemm/05_wgmma.cuh"
#include "kernels/grouped_gemm/06_wgmma_weight.cuh"

namespace ws::grouped_gemm {

template void run_rows<bf16>(const RowsCall&, const char*, int, Stream);
template void run_depth<bf16>(const DepthCall&, const char*, int, Stream);

}  // namespace ws::grouped_gemm
