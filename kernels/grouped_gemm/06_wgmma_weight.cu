#include "kernels/grouped_gemm/06_wgmma_weight.cuh"

namespace ws::grouped_gemm {

template void run_depth<half>(const DepthCall&, const char*, int, Stream);

extern const Rung kWgmmaWeight;
constinit const Rung kWgmmaWeight = rung_of<WgmmaWeight, kHalves, GroupedGemmWeight>({
    .name = "wgmma_weight",
    .from = "wgmma",
    .idea = "K is cut anywhere: zeros over the next group's part of a slice, in shared memory",
    .arch = Arch::kSm90a,
});

}  // namespace ws::grouped_gemm
