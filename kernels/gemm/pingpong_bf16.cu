#include "kernels/gemm/45_pingpong.cuh"

namespace ws::gemm {

template void run_pingpong<bf16>(const Call&, Stream);

}  // namespace ws::gemm
