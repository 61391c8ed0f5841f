// Idea: f32 on tensor cores. TF32 keeps f32's exponent and 10 bits of its mantissa; a caller who
//   allows it (precision=tf32) gets matrix products of f32 in memory, of 16 x 16 x 8 each.
// From wmma_stages: fragments of 8 of K, as many bytes as 16 of f16, rounded to nearest as they are
//   loaded. Rows of B lie 32 bytes further apart than they are long: a lane reads floats one by
//   one.
// Traffic: M N K (1 / 128 + 1 / 128) elements of 4 bytes from L2.
// Limits: f32 with precision=tf32; a row-major A and B, layout nn, rows aligned to 16 bytes. What
//   two warps read is rounded twice.
#pragma once

#include "kernels/gemm/16_wmma_stages.cuh"

namespace ws::gemm {

// 128 x 128, 84 KB: two blocks an SM. An estimate, not yet measured.
inline constexpr WmmaShape kWmmaTf32Shape = {
    .warps_m = 4, .warps_n = 2, .down = 2, .across = 4, .unroll = 1};

struct WmmaTf32 {
  static bool supports(const Call& call, Why& why) {
    return allows_tf32(call, why) && is_aligned_nn(call, why);
  }
  static void run(const Call& call, const Context& context) {
    WmmaStagesKernel<float, kWmmaTf32Shape>::run(call, context.stream);
  }
};

inline constexpr Seed kWmmaTf32Seeds[] = {
    {.name = "sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages", .attributes = "precision=tf32"},
    {.name = "sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages_dsmem", .attributes = "precision=tf32"},
    {.name = "sgemm_wmma_m16n16k8_mma4x2_warp2x4_stages_swizzle", .attributes = "precision=tf32"},
};
inline constexpr Rung kWmmaTf32 = rung_of<WmmaTf32, DTypes{DType::kF32}, Gemm>({
    .name = "wmma_tf32",
    .from = "wmma_stages",
    .idea = "f32 in memory, rounded to TF32 as fragments are loaded",
    .seeds = kWmmaTf32Seeds,
});

}  // namespace ws::gemm
