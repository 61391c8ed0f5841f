#include "kernels/gemm/59_split_tf32.cuh"

namespace ws::gemm {

extern const Rung kSplitTf32;
constinit const Rung kSplitTf32 = rung_of<SplitTf32, DTypes{DType::kF32}, Gemm>({
    .name = "split_tf32",
    .from = "wgmma_tf32_rs",
    .idea = "K divided in a cluster: TF32 of few rows or few tiles, either operand across K",
    .arch = Arch::kSm90a,
});

double split_tf32_time(const Call& call) { return SplitTf32::time(call); }

}  // namespace ws::gemm
