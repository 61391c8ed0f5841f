#include "kernels/gemm/35_warp_specialized.cuh"

namespace ws::gemm {

template void run_warp_specialized<bf16>(const Call&, Stream);

}  // namespace ws::gemm
