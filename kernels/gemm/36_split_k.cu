#include "kernels/gemm/36_split_k.cuh"

namespace ws::gemm {

template void run_split_k<half>(const Call&, const SplitPlan&, Stream, bool);

extern const Rung kSplitK;
constinit const Rung kSplitK = rung_of<SplitK, kHalves, Gemm>({
    .name = "split_k",
    .from = "warp_specialized",
    .idea = "a cluster's blocks divide K and add up in shared memory; thin products turned",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
