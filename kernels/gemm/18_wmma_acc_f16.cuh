// Idea: a tile of 256 x 256. Sixteen warps of 64 x 64 read an element of A and of B from L2 for 256
//   products; sums in f16 leave a thread, which has 128 registers then, room for its 4 x 4
//   fragments.
// From wmma_stages: 32 registers of sums for every 64, half as many bytes from L2 for a product,
//   and one block an SM, in which nobody multiplies while a tile is begun or written.
// Traffic: M N K (1 / 256 + 1 / 256) elements from L2.
// Limits: sums are rounded to 11 bits, 16 of K at a time. Never chosen, only asked for. f16; as
//   wmma_stages. Fewer than two tiles an SM leave SMs without work.
#pragma once

#include "kernels/gemm/16_wmma_stages.cuh"

namespace ws::gemm {

// 160 KB. An estimate, not yet measured.
inline constexpr WmmaShape kWmmaAccF16Shape = {
    .warps_m = 4, .warps_n = 4, .down = 4, .across = 4, .blocks = 1, .unroll = 1};

struct WmmaAccF16 {
  static bool supports(const Call& call, Why& why) { return is_aligned_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    WmmaStagesKernel<half, kWmmaAccF16Shape, half>::run(call, context.stream);
  }
};

inline constexpr Seed kWmmaAccF16Seeds[] = {
    {.name = "hgemm_wmma_m16n16k16_mma4x4_warp4x4_stages_dsmem"},
};
inline constexpr Rung kWmmaAccF16 = rung_of<WmmaAccF16, DTypes{DType::kF16}, Gemm>({
    .name = "wmma_acc_f16",
    .from = "wmma_stages",
    .idea = "256 x 256 by 16 warps, whose sums fit because they are f16",
    .accumulate = DType::kF16,
    .seeds = kWmmaAccF16Seeds,
});

}  // namespace ws::gemm
