#include "kernels/scaled_gemm/07_split_k.cuh"

namespace ws::scaled_gemm {

void run_split_k_of_floats(const Call& call, Stream stream) {
  const gemm::SplitPlan plan = gemm::plan_split_k<SplitTiles>(in_halves(call));
  SplitTiles::with(plan.policy, [&]<class Policy>() {
    with_pair(call, [&]<class A, class B>() {
      using Kernel = SplitPromotedKernel<B, A, Policy>;
      Kernel::template start<Kernel>(turned(call), ScaledLines(call), plan.parts, stream);
    });
  });
}

}  // namespace ws::scaled_gemm
