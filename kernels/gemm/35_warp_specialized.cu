#include "kernels/gemm/35_warp_specialized.cuh"

namespace ws::gemm {

template void run_warp_specialized<half>(const Call&, Stream);

extern const Rung kWarpSpecialized;
constinit const Rung kWarpSpecialized = rung_of<WarpSpecialized, kHalves, Gemm>({
    .name = "warp_specialized",
    .from = "wgmma_multicast",
    .idea = "stmatrix, and the copy engine stores C under the next tile; every layout and size",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
