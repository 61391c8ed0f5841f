#include "kernels/gemm/50_shifted.cuh"

namespace ws::gemm {

template void run_shifted<bf16>(const Call&, const ShiftedPlan&, Stream);

}  // namespace ws::gemm
