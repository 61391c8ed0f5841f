#include "kernels/gemm/60_batched_three_tf32_rs.cuh"

namespace ws::gemm {

void BatchedThreeTf32Rs::run(const BatchedCall& call, const Context& context) {
  run_as<BatchedTensorOutput<float>, BatchedTransposedOutput<float>, BatchedPlainOutput<float>>(
      plan(call), call, context);
}

extern const Rung kBatchedThreeTf32Rs;
constinit const Rung kBatchedThreeTf32Rs = rung_of<BatchedThreeTf32Rs, DTypes{DType::kF32}, Bmm>({
    .name = "batched_three_tf32_rs",
    .from = "batched_three_tf32",
    .idea = "low parts of a batch made on the way: f32 of small products",
    .arch = Arch::kSm90a,
});

double batched_three_tf32_rs_time(const BatchedCall& call) {
  Why nobody;
  return BatchedThreeTf32Rs::supports(call, nobody) ? BatchedThreeTf32Rs::time(call) : kNever;
}

}  // namespace ws::gemm
