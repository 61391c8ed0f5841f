#include "kernels/gemm/58_split_three_tf32.cuh"

namespace ws::gemm {

extern const Rung kSplitThreeTf32;
constinit const Rung kSplitThreeTf32 = rung_of<SplitThreeTf32, DTypes{DType::kF32}, Gemm>({
    .name = "split_three_tf32",
    .from = "three_tf32",
    .idea = "low parts made on the way, K divided in a cluster: f32 of few rows or few tiles",
    .arch = Arch::kSm90a,
});

double split_three_tf32_time(const Call& call) { return SplitThreeTf32::time(call); }

}  // namespace ws::gemm
