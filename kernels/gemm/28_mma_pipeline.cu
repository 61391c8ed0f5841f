#include "kernels/gemm/28_mma_pipeline.cuh"
#include "kernels/gemm/plan.hpp"

namespace ws::gemm {

void MmaPipeline::run(const Call& call, const Context& context) {
  const int bytes = copy_bytes_of(call);
  const DeviceFacts& device = device_facts();
  const bool wide = bytes == 16 && choose_wide(call, device.multiprocessors, device.shared_bytes);
  const bool tiny = bytes < 16 && tiny_mma_time(call) < small_mma_time(call);
  with_types<kHalves>(call, [&]<class T, Contiguous kA, Contiguous kB>() {
    if (wide) {
      MmaPipelineKernel<T, kA, kB, MmaWide>::run(call, bytes, context.stream);
    } else if (tiny) {
      MmaPipelineKernel<T, kA, kB, MmaTiny>::run(call, bytes, context.stream);
    } else {
      MmaPipelineKernel<T, kA, kB, MmaSmall>::run(call, bytes, context.stream);
    }
  });
}

// Theirs accumulate in f16; ours in f32, at no loss of speed on these rungs. Their "tn" is layout
// nt, their "rr" and "x4x2" are two sets of fragments.
constexpr Seed kMmaPipelineSeeds[] = {
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_dsmem_tn", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_rr", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_swizzle", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4x2_stages_dsmem_tn_swizzle_x4",
     .dtypes = {DType::kF16}},
};
extern const Rung kMmaPipeline;
constinit const Rung kMmaPipeline = rung_of<MmaPipeline, kHalves, Gemm>({
    .name = "mma_pipeline",
    .from = "mma_bands",
    .idea = "fragments of the next step are read under the products; wide tiles, every layout",
    .seeds = kMmaPipelineSeeds,
});

}  // namespace ws::gemm
