#include "kernels/grouped_gemm/05_wgmma.cuh"

namespace ws::grouped_gemm {

template void run_rows<half>(const RowsCall&, const char*, int, Stream);

extern const Rung kWgmma;
constinit const Rung kWgmma = rung_of<Wgmma, kHalves, GroupedGemm>({
    .name = "wgmma",
    .from = "mma_pipeline",
    .idea = "one persistent line of tiles through all groups, walked on the device by both roles",
    .arch = Arch::kSm90a,
});

}  // namespace ws::grouped_gemm
