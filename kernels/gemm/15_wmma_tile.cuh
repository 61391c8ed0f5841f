// Idea: a warp computes 2 x 4 fragments of C, 32 x 64, and reads 2 of A and 4 of B for 8 products.
// From wmma_shared: 6 loads of fragments where 16 stood; a tile of 128 x 128 for the block.
// Traffic: M N K (1 / 128 + 1 / 128) elements from L2.
// Limits: as wmma_shared.
#pragma once

#include "kernels/gemm/14_wmma_shared.cuh"

namespace ws::gemm {

struct WmmaTile {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { WmmaSharedKernel<T, 2, 4>::run(call, context.stream); });
  }
};

inline constexpr Seed kWmmaTileSeeds[] = {
    {.name = "hgemm_wmma_m16n16k16_mma4x2_warp2x4", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWmmaTile = rung_of<WmmaTile, kHalves, Gemm>({
    .name = "wmma_tile",
    .from = "wmma_shared",
    .idea = "a warp computes 32 x 64: 6 fragments read for 8 products",
    .seeds = kWmmaTileSeeds,
});

}  // namespace ws::gemm
