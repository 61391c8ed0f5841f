#include "kernels/gemm/47_batched_three_tf32.cuh"

namespace ws::gemm {

extern const Rung kBatchedThreeTf32;
constinit const Rung kBatchedThreeTf32 = rung_of<BatchedThreeTf32, DTypes{DType::kF32}, Bmm>({
    .name = "batched_three_tf32",
    .from = "three_tf32",
    .idea = "low parts of a whole batch at once, then the tiles of all products in one line",
    .arch = Arch::kSm90a,
});

double batched_three_tf32_time(const BatchedCall& call) { return BatchedThreeTf32::time(call); }

}  // namespace ws::gemm
