#include "kernels/linear/04_mma_pipeline.cuh"

namespace ws::linear {

extern const Rung kMmaPipeline;
constinit const Rung kMmaPipeline = rung_of<MmaPipeline, kHalves, Addmm, GemmAccumulate>({
    .name = "mma_pipeline",
    .from = "naive",
    .idea = "sums cross shared memory in f32 and are finished along whole lines: any alignment",
});

}  // namespace ws::linear
