// Idea: the tensor cores' sums in f16: two of them in a register, half as many registers of sums.
// From mma_bands: 32 registers for a warp's 64 x 32 of C where f32 has 64. A GPU for data centers
//   sums in f32 at the same rate; others, those for games, take twice as long for it.
// Traffic: as mma_bands.
// Limits: each product of 16 of K is rounded to 11 bits of the sum so far. Never chosen, only asked
//   for. f16; as mma_stages.
#pragma once

#include "kernels/gemm/25_mma_bands.cuh"

namespace ws::gemm {

struct MmaAccF16 {
  static bool supports(const Call& call, Why& why) { return is_aligned_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    MmaStagesKernel<half, BandedStages, half>::run(call, context);
  }
};

inline constexpr Rung kMmaAccF16 = rung_of<MmaAccF16, DTypes{DType::kF16}, Gemm>({
    .name = "mma_acc_f16",
    .from = "mma_bands",
    .idea = "tensor cores give sums of half the registers",
    .accumulate = DType::kF16,
});

}  // namespace ws::gemm
