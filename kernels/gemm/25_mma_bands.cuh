// Idea: the order of tiles. Blocks walk C in bands of 2048 rows, column by column of a band: what
//   runs at one time covers a square of C, not a few rows of it.
// From mma_swizzle: of A and B together fewest different elements are in use at one time, and L2
//   answers for most of them.
// Traffic: M N K (1 / 128 + 1 / 128) elements from L2, each operand from memory about once.
// Limits: as mma_stages.
#pragma once

#include "kernels/gemm/24_mma_swizzle.cuh"

namespace ws::gemm {

struct BandedStages : SwizzledStages {
  static constexpr int kBand = 2048;
};

// "swizzle": their word for this order.
inline constexpr Seed kMmaBandsSeeds[] = {
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_swizzle", .dtypes = {DType::kF16}},
};
inline constexpr Rung kMmaBands = rung_of<MmaStaged<BandedStages>, kHalves, Gemm>({
    .name = "mma_bands",
    .from = "mma_swizzle",
    .idea = "tiles in bands of 2048 rows: what runs at one time shares rows and columns in L2",
    .seeds = kMmaBandsSeeds,
});

}  // namespace ws::gemm
