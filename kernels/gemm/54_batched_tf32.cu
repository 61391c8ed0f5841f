#include "kernels/gemm/54_batched_tf32.cuh"

namespace ws::gemm {

extern const Rung kBatchedTf32;
constinit const Rung kBatchedTf32 = rung_of<BatchedTf32, DTypes{DType::kF32}, Bmm>({
    .name = "batched_tf32",
    .from = "batched_pingpong",
    .idea = "f32 as tf32, where the call allows it; operands are copied along K, a batch at once",
    .arch = Arch::kSm90a,
});

double batched_tf32_time(const BatchedCall& call) { return BatchedTf32::time(call); }

}  // namespace ws::gemm
