#include "kernels/scaled_gemm/07_split_k.cuh"

namespace ws::scaled_gemm {

void SplitK::run(const Call& call, const Context& context) {
  if (call.dtype != DType::kI8) return run_split_k_of_floats(call, context.stream);
  const gemm::SplitPlan plan = gemm::plan_split_k<SplitTiles>(in_halves(call));
  SplitTiles::with(plan.policy, [&]<class Policy>() {
    using Output = gemm::LinesOutput<int32_t>;
    using Kernel = SplitKernel<int8_t, int8_t, Policy, Output>;
    const Output output{call.c.as<int32_t>(), call.c.leading,
                        gemm::alignment_of(call.c, call.c_dtype) == 16};
    Kernel::template start<Kernel>(turned(call), output, plan.parts, context.stream);
  });
}

extern const Rung kSplitK;
constinit const Rung kSplitK = rung_of<SplitK, IntMm, ScaledMm>({
    .name = "split_k",
    .from = "promoted",
    .idea = "a cluster's blocks divide K; few rows are the narrow side of turned tiles",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
