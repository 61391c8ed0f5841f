// Idea: fragments of 32 x 8. A of 32 x 16 serves four of B as narrow as mma.sync itself takes them.
// From wmma_stages: a warp reads 2 fragments of A and 4 of B for 64 x 32 of C, as many elements as
//   for 32 x 64, the larger ones from the operand whose rows are long.
// Traffic: as wmma_stages.
// Limits: as wmma_stages.
#pragma once

#include "kernels/gemm/16_wmma_stages.cuh"

namespace ws::gemm {

// 128 x 128 by 2 x 4 warps; two stages: the seed's double buffer.
inline constexpr WmmaShape kWmmaTallShape = {
    .warps_m = 2, .warps_n = 4, .down = 2, .across = 4, .rows = 32, .columns = 8, .stages = 2};

inline constexpr Seed kWmmaTallSeeds[] = {
    {.name = "hgemm_wmma_m32n8k16_mma2x4_warp2x4_dbuf_async", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWmmaTall = rung_of<WmmaStages<kWmmaTallShape>, kHalves, Gemm>({
    .name = "wmma_tall",
    .from = "wmma_stages",
    .idea = "fragments of 32 x 8 instead of 16 x 16",
    .seeds = kWmmaTallSeeds,
});

}  // namespace ws::gemm
