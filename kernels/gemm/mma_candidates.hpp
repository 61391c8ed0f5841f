// What mma_pipeline's policies are chosen from, a rung each, so that the tuner measures them on the
// harness. Not in the family's table: f16 and a row-major A alone, to compile in little time.
#pragma once

#include "kernels/gemm/28_mma_pipeline.cuh"

namespace ws::gemm {

template <MmaShape kShape>
struct MmaCandidate {
  static bool supports(const Call& call, Why& why) {
    return runs_supported(call, why) &&
           why.unless(call.a.contiguous == Contiguous::kColumns, "takes a row-major A") &&
           why.unless(copy_bytes_of(call) == 16, "takes rows at multiples of 16 bytes");
  }
  static void run(const Call& call, const Context& context) {
    call.b.contiguous == Contiguous::kRows ? run_b<Contiguous::kRows>(call, context)
                                           : run_b<Contiguous::kColumns>(call, context);
  }

 private:
  template <Contiguous kB>
  static void run_b(const Call& call, const Context& context) {
    MmaPipelineKernel<half, Contiguous::kColumns, kB, MmaPolicy<kShape>>::run(call, 16,
                                                                              context.stream);
  }
};

template <MmaShape kShape>
constexpr Rung mma_candidate(std::string_view name) {
  return rung_of<MmaCandidate<kShape>, DTypes{DType::kF16}, Gemm>(
      {.name = name, .idea = "a tile shape", .may_spill = true});
}

// Named tile of a block, tile of a warp, stages, blocks an SM; fields in the order of MmaShape.
inline constexpr Rung kMmaCandidates[] = {
    // The policies of today: wide, small.
    mma_candidate<MmaShape{128, 256, 3, 64, 64}>("128x256_64x64_s3_b1"),
    mma_candidate<MmaShape{128, 128, 3, 64, 32}>("128x128_64x32_s3_b1"),
    // Two blocks an SM, so that one multiplies while the other begins, waits or writes.
    mma_candidate<MmaShape{128, 128, 3, 64, 64, 2}>("128x128_64x64_s3_b2"),
    mma_candidate<MmaShape{128, 128, 3, 64, 32, 2}>("128x128_64x32_s3_b2"),
    mma_candidate<MmaShape{64, 256, 2, 64, 64, 2}>("64x256_64x64_s2_b2"),
    // A longer pipeline.
    mma_candidate<MmaShape{128, 256, 4, 64, 64}>("128x256_64x64_s4_b1"),
    mma_candidate<MmaShape{128, 128, 6, 64, 64}>("128x128_64x64_s6_b1"),
    // The tile upright. 256 x 256 by warps of 64 x 128 spills 3 KB.
    mma_candidate<MmaShape{256, 128, 3, 64, 64}>("256x128_64x64_s3_b1"),
};

}  // namespace ws::gemm
