#include "kernels/gemm/57_batched_tf32_rs.cuh"

namespace ws::gemm {

extern const Rung kBatchedTf32Rs;
constinit const Rung kBatchedTf32Rs = rung_of<BatchedTf32Rs, DTypes{DType::kF32}, Bmm>({
    .name = "batched_tf32_rs",
    .from = "batched_tf32",
    .idea = "lanes bring the operand that lies across K in registers, of whichever product",
    .arch = Arch::kSm90a,
});

double batched_tf32_rs_time(const BatchedCall& call) {
  Why nobody;
  return BatchedTf32Rs::supports(call, nobody) ? BatchedTf32Rs::time(call) : kNever;
}

}  // namespace ws::gemm
