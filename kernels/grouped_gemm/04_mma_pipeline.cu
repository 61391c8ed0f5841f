#include "kernels/grouped_gemm/04_mma_pipeline.cuh"

namespace ws::grouped_gemm {

extern const Rung kMmaPipeline;
constinit const Rung kMmaPipeline = rung_of<MmaPipeline, kHalves, GroupedGemm, GroupedGemmWeight>({
    .name = "mma_pipeline",
    .from = "warp_tile",
    .idea = "the same lookup before a kernel on tensor cores, for rows of any alignment",
});

}  // namespace ws::grouped_gemm
