#include "kernels/gemm/36_split_k.cuh"

namespace ws::gemm {

template void run_split_k<bf16>(const Call&, const SplitPlan&, Stream, bool);

}  // namespace ws::gemm
