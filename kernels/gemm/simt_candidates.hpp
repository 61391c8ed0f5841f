// What the policies of the CUDA-core rungs are chosen from, a rung each, so that the tuner measures
// them on the harness. Not in the family's table: a row-major A alone, to compile in little time.
#pragma once

#include "kernels/gemm/07_async_copy.cuh"
#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/gemm/09_copy_engine.cuh"
#include "kernels/gemm/12_acc_f16.cuh"

namespace ws::gemm {

template <class Ladder, template <Contiguous, Contiguous, class> class Kernel, SimtShape kShape>
struct SimtCandidate {
  static bool supports(const Call& call, Why& why) {
    return Ladder::supports(call, why) &&
           why.unless(call.a.contiguous == Contiguous::kColumns, "takes a row-major A");
  }
  static void run(const Call& call, const Context& context) {
    using Policy = SimtPolicy<kShape>;
    if (call.b.contiguous == Contiguous::kRows) {
      Kernel<Contiguous::kColumns, Contiguous::kRows, Policy>::run(call, context.stream);
    } else {
      Kernel<Contiguous::kColumns, Contiguous::kColumns, Policy>::run(call, context.stream);
    }
  }
};

// Layout nn as the transposed product: C^T = B^T A^T, in which the factor that is held runs along
// the outer dimension, and the one that is reused along K, as in layout tt.
template <SimtShape kShape>
struct TransposedCandidate {
  static bool supports(const Call& call, Why& why) {
    return CopyEngine::supports(call, why) &&
           why.unless(call.a.contiguous == Contiguous::kColumns &&
                          call.b.contiguous == Contiguous::kColumns,
                      "takes layout nn");
  }
  static void run(const Call& call, const Context& context) {
    CopyEngineKernel<Contiguous::kRows, Contiguous::kRows, SimtPolicy<kShape>>::run(
        transposed(call), context.stream);
  }
};
template <SimtShape kShape>
constexpr Rung transposed_candidate(std::string_view name) {
  return rung_of<TransposedCandidate<kShape>, DTypes{DType::kF32}, Gemm>(
      {.name = name, .idea = "a tile shape", .arch = Arch::kSm90, .may_spill = true});
}

template <SimtShape kShape>
constexpr Rung copy_engine_candidate(std::string_view name) {
  return rung_of<SimtCandidate<CopyEngine, CopyEngineKernel, kShape>, DTypes{DType::kF32}, Gemm>(
      {.name = name, .idea = "a tile shape", .arch = Arch::kSm90, .may_spill = true});
}
template <SimtShape kShape>
constexpr Rung warp_tile_candidate(std::string_view name) {
  return rung_of<SimtCandidate<WarpTile, WarpTileKernel, kShape>, DTypes{DType::kF32}, Gemm>(
      {.name = name, .idea = "a tile shape", .may_spill = true});
}

// Named tile of a block, tile of a lane, blocks an SM, stages, and what else is not the default;
// fields in the order of SimtShape: tile_m, tile_n, thread_m, thread_n, blocks, stages, tile_k,
// unroll, by_columns.
inline constexpr Rung kCopyEngineCandidates[] = {
    // The policies of today: big, small.
    copy_engine_candidate<SimtShape{128, 128, 8, 16, 2, 3, 32, 2}>("128x128_8x16_b2_s3_u2"),
    copy_engine_candidate<SimtShape{64, 64, 8, 8, 4, 3, 32, 4}>("64x64_8x8_b4_s3_u4"),
    // The transposed product, today's lanes' tile and the same upright.
    transposed_candidate<SimtShape{128, 128, 8, 16, 2, 3, 32, 2, true}>(
        "128x128_8x16_b2_s3_u2_turned"),
    transposed_candidate<SimtShape{128, 128, 16, 8, 2, 3, 32, 2, true}>(
        "128x128_16x8_b2_s3_u2_turned"),
    // How long the loop is: 32 or 64 KB of instructions where today's has 16.
    copy_engine_candidate<SimtShape{128, 128, 8, 16, 2, 3, 32, 4}>("128x128_8x16_b2_s3_u4"),
    copy_engine_candidate<SimtShape{128, 128, 8, 16, 2, 3, 32, 8}>("128x128_8x16_b2_s3_u8"),
    // More, shorter stages.
    copy_engine_candidate<SimtShape{128, 128, 8, 16, 2, 6, 16, 2}>("128x128_8x16_b2_s6_k16_u2"),
    // The lane's tile upright.
    copy_engine_candidate<SimtShape{128, 128, 16, 8, 2, 3, 32, 2}>("128x128_16x8_b2_s3_u2"),
    // One large block an SM.
    copy_engine_candidate<SimtShape{128, 256, 8, 16, 1, 4, 32, 4}>("128x256_8x16_b1_s4_u4"),
    copy_engine_candidate<SimtShape{256, 128, 8, 16, 1, 4, 32, 4}>("256x128_8x16_b1_s4_u4"),
    // Smaller lanes' tiles: two and three warps for each scheduler.
    copy_engine_candidate<SimtShape{128, 128, 8, 8, 1, 4, 32, 4}>("128x128_8x8_b1_s4_u4"),
    copy_engine_candidate<SimtShape{128, 64, 8, 8, 3, 3, 32, 2}>("128x64_8x8_b3_s3_u2"),
    // More, smaller blocks.
    copy_engine_candidate<SimtShape{64, 128, 8, 16, 4, 3, 16, 2}>("64x128_8x16_b4_s3_k16_u2"),
    copy_engine_candidate<SimtShape{64, 64, 8, 8, 3, 4, 32, 4}>("64x64_8x8_b3_s4_u4"),
    copy_engine_candidate<SimtShape{64, 64, 8, 8, 6, 4, 16, 2}>("64x64_8x8_b6_s4_k16_u2"),
};

inline constexpr Rung kWarpTileCandidates[] = {
    // The policy of today, and larger tiles.
    warp_tile_candidate<SimtShape{64, 64, 8, 8, 4, 3, 16, 8}>("64x64_8x8_b4_s3_k16"),
    warp_tile_candidate<SimtShape{128, 128, 8, 16, 2, 3, 16, 2}>("128x128_8x16_b2_s3_k16_u2"),
    warp_tile_candidate<SimtShape{128, 128, 8, 16, 2, 3, 32, 2}>("128x128_8x16_b2_s3_u2"),
    warp_tile_candidate<SimtShape{128, 128, 8, 8, 1, 3, 32, 4}>("128x128_8x8_b1_s3_u4"),
    warp_tile_candidate<SimtShape{128, 64, 8, 8, 3, 3, 16, 4}>("128x64_8x8_b3_s3_k16_u4"),
};

// One of async_copy's tiles, whatever the shape.
template <class Policy>
struct AsyncCopyCandidate {
  static bool supports(const Call& call, Why& why) { return AsyncCopy::supports(call, why); }
  static void run(const Call& call, const Context& context) {
    AsyncCopyKernel<Policy>::run(call, context.stream);
  }
};
template <class Policy>
constexpr Rung async_copy_candidate(std::string_view name) {
  return rung_of<AsyncCopyCandidate<Policy>, DTypes{DType::kF32}, Gemm>(
      {.name = name, .idea = "a tile shape", .may_spill = true});
}

// Named columns of a lane, K of a slice, blocks an SM.
inline constexpr Rung kAsyncCopyCandidates[] = {
    async_copy_candidate<QuadPolicy<4, 16, 2>>("8x4_k16_b2"),
    async_copy_candidate<QuadPolicy<8, 16, 2>>("8x8_k16_b2"),
    async_copy_candidate<QuadPolicy<8, 8, 2>>("8x8_k8_b2"),
    async_copy_candidate<QuadPolicy<16, 16, 1>>("8x16_k16_b1"),
};

// One of double_buffer's tiles of f16, or of acc_f16's, whatever the shape.
template <class Ladder, class Policy, class Tile>
struct OctetCandidate {
  static bool supports(const Call& call, Why& why) {
    return Ladder::supports(call, why) && why.unless(call.dtype == DType::kF16, "takes f16");
  }
  static void run(const Call& call, const Context& context) {
    DoubleBufferKernel<half, Policy, Tile>::run(call, context.stream);
  }
};
template <class Policy>
constexpr Rung double_buffer_f16_candidate(std::string_view name) {
  return rung_of<OctetCandidate<DoubleBuffer, Policy, QuadTile<Policy::kColumns, 8>>,
                 DTypes{DType::kF16}, Gemm>(
      {.name = name, .idea = "a tile shape", .may_spill = true});
}
template <class Policy>
constexpr Rung acc_f16_candidate(std::string_view name) {
  return rung_of<OctetCandidate<AccF16, Policy, PairTile<Policy::kColumns>>, DTypes{DType::kF16},
                 Gemm>(
      {.name = name, .idea = "a tile shape", .accumulate = DType::kF16, .may_spill = true});
}

inline constexpr Rung kDoubleBufferF16Candidates[] = {
    double_buffer_f16_candidate<QuadPolicy<8, 16, 2>>("8x8_k16_b2_f16"),
    double_buffer_f16_candidate<QuadPolicy<16, 16, 1>>("8x16_k16_b1_f16"),
    double_buffer_f16_candidate<QuadPolicy<16, 32, 1>>("8x16_k32_b1_f16"),
};
inline constexpr Rung kAccF16Candidates[] = {
    acc_f16_candidate<QuadPolicy<8, 16, 2>>("8x8_k16_b2_acc_f16"),
    acc_f16_candidate<QuadPolicy<8, 32, 2>>("8x8_k32_b2_acc_f16"),
    acc_f16_candidate<QuadPolicy<16, 16, 2>>("8x16_k16_b2_acc_f16"),
    acc_f16_candidate<QuadPolicy<16, 32, 1>>("8x16_k32_b1_acc_f16"),
};

}  // namespace ws::gemm
