#include "kernels/scaled_gemm/04_promoted.cuh"

namespace ws::scaled_gemm {

void Promoted::run(const Call& call, const Context& context) {
  const int policy = gemm::plan_whole_tiles<PromotedTiles>(in_halves(call)).policy;
  PromotedTiles::with(policy, [&]<class Policy>() {
    with_pair(call, [&]<class A, class B>() {
      if (call.by_blocks) {
        launch_wgmma<PromotedKernel<A, B, Policy, BlocksOutput>>(call, BlocksOutput(call),
                                                                 context.stream);
      } else {
        launch_wgmma<PromotedKernel<A, B, Policy, ScaledOutput>>(call, ScaledOutput(call),
                                                                 context.stream);
      }
    });
  });
}

extern const Rung kPromoted;
constinit const Rung kPromoted = rung_of<Promoted, ScaledMm>({
    .name = "promoted",
    .from = "wgmma",
    .idea = "each 128 of K is scaled and added to f32 sums in registers: block scales, full sums",
    .arch = Arch::kSm90a,
});

}  // namespace ws::scaled_gemm
