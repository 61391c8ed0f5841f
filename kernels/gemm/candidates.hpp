// What the policies of warp_specialized, pingpong, split_k and thin were chosen from, a rung each,
// so that the tuner measures them on the harness. Not in the family's table: f16 and a row-major A
// alone, to compile in little time. mma_candidates.hpp and simt_candidates.hpp have those of other
// rungs.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/gemm/36_split_k.cuh"
#include "kernels/gemm/39_thin.cuh"
#include "kernels/gemm/45_pingpong.cuh"

namespace ws::gemm {

template <WgmmaShape kShape>
struct WgmmaCandidate {
  static bool supports(const Call& call, Why& why) {
    return WarpSpecialized::supports(call, why) &&
           why.unless(call.a.contiguous == Contiguous::kColumns, "takes a row-major A");
  }
  static void run(const Call& call, const Context& context) {
    call.b.contiguous == Contiguous::kRows ? run_b<Contiguous::kRows>(call, context)
                                           : run_b<Contiguous::kColumns>(call, context);
  }

 private:
  template <Contiguous kB>
  static void run_b(const Call& call, const Context& context) {
    using Kernel = KernelOf<half, Contiguous::kColumns, kB, WgmmaPolicy<kShape>>;
    const int64_t clusters = resident_clusters<Kernel>(
        {.blocks = Kernel::kCluster, .threads = Kernel::kThreads, .cluster = Kernel::kCluster});
    Kernel::run(call, static_cast<int>(clusters) * Kernel::kCluster, context.stream);
  }
};

template <WgmmaShape kShape>
constexpr Rung candidate(std::string_view name) {
  return rung_of<WgmmaCandidate<kShape>, DTypes{DType::kF16}, Gemm>(
      {.name = name, .idea = "a tile shape", .arch = Arch::kSm90a, .may_spill = true});
}

// Named tile x tile, stages, cluster down x across, and what else is not the default.
inline constexpr Rung kWgmmaCandidates[] = {
    // Big, middle, small, and widths between.
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}>(
        "128x256_s4_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}>(
        "128x128_s6_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}>("128x64_s8_c1x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 224, .stages = 4, .cluster_m = 2}>(
        "128x224_s4_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 192, .stages = 4, .cluster_m = 2}>(
        "128x192_s4_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 160, .stages = 4, .cluster_m = 2}>(
        "128x160_s4_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 96, .stages = 6, .cluster_m = 2}>(
        "128x96_s6_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 96, .stages = 6, .cluster_n = 2}>(
        "128x96_s6_c1x2"),
    // Widths that may fill a wave.
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 144, .stages = 5, .cluster_m = 2}>(
        "128x144_s5_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 176, .stages = 5, .cluster_m = 2}>(
        "128x176_s5_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 176, .stages = 5, .cluster_n = 2}>(
        "128x176_s5_c1x2"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 208, .stages = 4, .cluster_m = 2}>(
        "128x208_s4_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 240, .stages = 4, .cluster_m = 2}>(
        "128x240_s4_c2x1"),
    // Who shares what: nobody, A, both, B by four.
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4}>("128x256_s4_c1x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_n = 2}>(
        "128x256_s4_c1x2"),
    candidate<WgmmaShape{
        .tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2, .cluster_n = 2}>(
        "128x256_s4_c2x2"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 4}>(
        "128x256_s4_c4x1"),
    // How high the band is that running tiles cover.
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2, .band = 1024}>(
        "128x256_s4_c2x1_band1024"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2, .band = 4096}>(
        "128x256_s4_c2x1_band4096"),
    // Stages against store buffers; other tiles.
    candidate<WgmmaShape{
        .tile_m = 128, .tile_n = 256, .stages = 3, .cluster_m = 2, .store_buffers = 4}>(
        "128x256_s3_c2x1_stores4"),
    candidate<WgmmaShape{.tile_m = 256, .tile_n = 128, .stages = 4, .cluster_n = 2}>(
        "256x128_s4_c1x2"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 192, .stages = 4, .cluster_n = 2}>(
        "128x192_s4_c1x2"),
    candidate<WgmmaShape{.tile_m = 256, .tile_n = 128, .stages = 4, .cluster_m = 2}>(
        "256x128_s4_c2x1"),
    candidate<WgmmaShape{
        .tile_m = 256, .tile_n = 152, .stages = 4, .cluster_m = 2, .store_buffers = 1}>(
        "256x152_s4_c2x1"),
    candidate<WgmmaShape{
        .tile_m = 256, .tile_n = 192, .stages = 3, .cluster_m = 2, .store_buffers = 1}>(
        "256x192_s3_c2x1"),
    candidate<WgmmaShape{
        .tile_m = 256, .tile_n = 192, .stages = 3, .cluster_n = 2, .store_buffers = 1}>(
        "256x192_s3_c1x2"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_n = 2}>(
        "128x128_s6_c1x2"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6}>("128x128_s6_c1x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8, .cluster_m = 2}>(
        "128x64_s8_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8, .cluster_n = 2}>(
        "128x64_s8_c1x2"),
};

// pingpong's tiles. Widths that are no multiple of 64 keep the place of whole panels of B in layout
// nn, and have fewer stages where these do not fit.
constexpr WgmmaShape alone(int tile_m, int tile_n, int stages, int cluster_m = 2, int cluster_n = 1,
                           int store_buffers = 2, int band = 2048) {
  return {tile_m, tile_n, stages, cluster_m, cluster_n, store_buffers, band, /*users=*/1};
}
inline constexpr Rung kPingpongCandidates[] = {
    // The same run's measure: both warpgroups at one tile.
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}>(
        "together_128x256_s4_c2x1"),
    // Two row blocks a warpgroup, and who shares what.
    candidate<alone(128, 192, 4)>("128x192_s4_c2x1"),
    candidate<alone(128, 160, 5)>("128x160_s5_c2x1"),
    candidate<alone(128, 128, 6)>("128x128_s6_c2x1"),
    candidate<alone(64, 128, 8)>("64x128_s8_c2x1"),
    candidate<alone(128, 192, 4, 1, 2)>("128x192_s4_c1x2"),
    candidate<alone(128, 160, 5, 1, 2)>("128x160_s5_c1x2"),
    candidate<alone(128, 128, 6, 1, 2)>("128x128_s6_c1x2"),
    candidate<alone(128, 128, 6, 1, 1)>("128x128_s6_c1x1"),
    candidate<alone(64, 128, 8, 1, 2)>("64x128_s8_c1x2"),
    candidate<alone(64, 128, 8, 1, 1)>("64x128_s8_c1x1"),
    // As many sums a thread as 128 x 128, and fewer bytes of shared memory for a product.
    candidate<alone(64, 256, 4)>("64x256_s4_c2x1"),
    candidate<alone(64, 256, 5, 2, 1, 1)>("64x256_s5_c2x1_stores1"),
    candidate<alone(64, 192, 6)>("64x192_s6_c2x1"),
    // Widths that may fill a wave.
    candidate<alone(128, 176, 5)>("128x176_s5_c2x1"),
    candidate<alone(128, 176, 5, 1, 2)>("128x176_s5_c1x2"),
    candidate<alone(128, 168, 5)>("128x168_s5_c2x1"),
    candidate<alone(128, 168, 5, 1, 2)>("128x168_s5_c1x2"),
    candidate<alone(128, 144, 5)>("128x144_s5_c2x1"),
    candidate<alone(128, 96, 6)>("128x96_s6_c2x1"),
    candidate<alone(64, 240, 5)>("64x240_s5_c2x1"),
    candidate<alone(64, 208, 5)>("64x208_s5_c2x1"),
    candidate<alone(64, 176, 6)>("64x176_s6_c2x1"),
    candidate<alone(64, 144, 6)>("64x144_s6_c2x1"),
    // Low and alone, or in pairs: for a wave or two.
    candidate<alone(64, 224, 5, 1)>("64x224_s5_c1x1"),
    candidate<alone(64, 216, 5, 1)>("64x216_s5_c1x1"),
    candidate<alone(64, 224, 5)>("64x224_s5_c2x1"),
    candidate<alone(64, 160, 6, 1)>("64x160_s6_c1x1"),
    candidate<alone(64, 96, 9)>("64x96_s9_c2x1"),
    candidate<alone(64, 96, 8, 1)>("64x96_s8_c1x1"),
    candidate<alone(64, 64, 12)>("64x64_s12_c2x1"),
    candidate<alone(64, 64, 12, 1)>("64x64_s12_c1x1"),
    candidate<alone(64, 48, 12, 1)>("64x48_s12_c1x1"),
    candidate<alone(64, 32, 16)>("64x32_s16_c2x1"),
    candidate<alone(64, 32, 12, 1)>("64x32_s12_c1x1"),
    // Stages against store buffers; the band.
    candidate<alone(128, 128, 5, 2, 1, 4)>("128x128_s5_c2x1_stores4"),
    candidate<alone(128, 192, 4, 2, 1, 2, 1024)>("128x192_s4_c2x1_band1024"),
};

// split_k's tiles, and how many parts K has.
template <class Policy, int kParts>
struct SplitCandidate {
  static bool supports(const Call& call, Why& why) {
    return SplitK::supports(call, why) &&
           why.unless(kParts <= divide_up(call.k, Policy::kTileK), "K has fewer slices") &&
           why.unless(call.a.contiguous == Contiguous::kColumns, "takes a row-major A");
  }
  static void run(const Call& call, const Context& context) {
    constexpr Contiguous kColumns = Contiguous::kColumns;
    constexpr Contiguous kRows = Contiguous::kRows;
    const bool nt = call.b.contiguous == kRows;
    if constexpr (Policy::kTurned) {
      const Call turned = transposed(call);
      nt ? SplitKKernel<half, kColumns, kRows, Policy>::run(turned, kParts, context.stream)
         : SplitKKernel<half, kRows, kRows, Policy>::run(turned, kParts, context.stream);
    } else {
      nt ? SplitKKernel<half, kColumns, kRows, Policy>::run(call, kParts, context.stream)
         : SplitKKernel<half, kColumns, kColumns, Policy>::run(call, kParts, context.stream);
    }
  }
};

template <class Policy, int kParts>
constexpr Rung split_candidate(std::string_view name) {
  return rung_of<SplitCandidate<Policy, kParts>, DTypes{DType::kF16}, Gemm>(
      {.name = name, .idea = "a tile shape and a split", .arch = Arch::kSm90a, .may_spill = true});
}

// In clusters of up to eight blocks.
#define WS_PARTS_OF_PAIRS(name, ...)                                                        \
  split_candidate<__VA_ARGS__, 1>(name "_x1"), split_candidate<__VA_ARGS__, 2>(name "_x2"), \
      split_candidate<__VA_ARGS__, 3>(name "_x3"), split_candidate<__VA_ARGS__, 4>(name "_x4")
#define WS_PARTS(name, ...)                                                          \
  WS_PARTS_OF_PAIRS(name, __VA_ARGS__), split_candidate<__VA_ARGS__, 6>(name "_x6"), \
      split_candidate<__VA_ARGS__, 8>(name "_x8")

inline constexpr Rung kSplitCandidates[] = {
    WS_PARTS_OF_PAIRS("thin16", SplitThin16),
    WS_PARTS_OF_PAIRS("thin32", SplitThin32),
    WS_PARTS("thin64", SplitThin64),
    WS_PARTS("low32", SplitLow32),
    WS_PARTS("low96", SplitLow96),
    WS_PARTS("wide48", SplitWide48),
    WS_PARTS("wide64", SplitWide64),
    WS_PARTS("half", SplitHalf),
    WS_PARTS_OF_PAIRS("half_pair", SplitHalfPair),
    WS_PARTS("square", SplitSquare),
    WS_PARTS("turned128x16_s6_b2",
             SplitPolicy<SplitShape{
                 .tile_m = 128, .tile_n = 16, .stages = 6, .blocks = 2, .turned = true}>),
    WS_PARTS("turned64x16_s10_b2",
             SplitPolicy<SplitShape{
                 .tile_m = 64, .tile_n = 16, .stages = 10, .blocks = 2, .turned = true}>),
    WS_PARTS("64x64_s6_b2",
             SplitPolicy<SplitShape{.tile_m = 64, .tile_n = 64, .stages = 6, .blocks = 2}>),
};
#undef WS_PARTS
#undef WS_PARTS_OF_PAIRS

// thin's rows and loads.
template <ThinShape kShape>
struct ThinCandidate {
  static bool supports(const Call& call, Why& why) { return Thin::supports(call, why); }
  static void run(const Call& given, const Context& context) {
    const Call call = long_first(given);
    with_type<DTypes{DType::kF16, DType::kF32}>(call.dtype, [&]<class T>() {
      with_columns(call, [&]<int kColumns>() {
        if constexpr (kColumns <= Thin::kMostColumns<T>) {
          ThinKernel<T, ThinPolicy<kShape, kColumns>>::run(call, context.stream);
        }
      });
    });
  }
};
template <ThinShape kShape>
constexpr Rung thin_candidate(std::string_view name) {
  return rung_of<ThinCandidate<kShape>, DTypes{DType::kF16, DType::kF32}, Gemm>(
      {.name = name, .idea = "threads x rows x vectors, blocks of an SM", .may_spill = true});
}
inline constexpr Rung kThinCandidates[] = {
    thin_candidate<ThinShape{128, 1, 4, 4}>("128x1x4_4"),
    thin_candidate<ThinShape{128, 1, 8, 4}>("128x1x8_4"),
    thin_candidate<ThinShape{128, 2, 2, 4}>("128x2x2_4"),
    thin_candidate<ThinShape{128, 2, 2, 6}>("128x2x2_6"),
    thin_candidate<ThinShape{128, 2, 4, 5}>("128x2x4_5"),
    thin_candidate<ThinShape{128, 2, 8, 4}>("128x2x8_4"),
    thin_candidate<ThinShape{128, 4, 1, 6}>("128x4x1_6"),
    thin_candidate<ThinShape{128, 4, 2, 4}>("128x4x2_4"),
    thin_candidate<ThinShape{128, 4, 4, 3}>("128x4x4_3"),
    thin_candidate<ThinShape{64, 4, 2, 8}>("64x4x2_8"),
    thin_candidate<ThinShape{256, 2, 4, 2}>("256x2x4_2"),
};

}  // namespace ws::gemm
