#include "kernels/gemm/53_mma_direct.cuh"

namespace ws::gemm {

void MmaDirect::run(const Call& call, const Context& context) {
  const int policy = plan_direct(call).policy;
  const bool anywhere = !begin_at_8(call);
  with_types<kHalves>(call, [&]<class T, Contiguous kA, Contiguous kB>() {
    DirectPolicies::with(policy, [&]<class Policy>() {
      anywhere ? MmaDirectKernel<T, kA, kB, 2, Policy>::run(call, context.stream)
               : MmaDirectKernel<T, kA, kB, 8, Policy>::run(call, context.stream);
    });
  });
}

extern const Rung kMmaDirect;
constinit const Rung kMmaDirect = rung_of<MmaDirect, kHalves, Gemm>({
    .name = "mma_direct",
    .from = "mma_naive",
    .idea = "16 bytes of K a lane, in an order of K that both operands share; warps divide K",
});

}  // namespace ws::gemm
