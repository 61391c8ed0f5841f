#include "kernels/gemm/43_batched_wgmma.cuh"

namespace ws::gemm {

template void run_batched_wgmma<bf16>(const BatchedCall&, int, Stream);

}  // namespace ws::gemm
