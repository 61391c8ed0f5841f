// What warp_specialized's policies were chosen from, a rung each, so that the tuner measures them
// on the harness. Not in the family's table: f16 and a row-major A alone, to compile in little
// time. mma_candidates.hpp and simt_candidates.hpp have those of other rungs.
#pragma once

#include "kernels/gemm/28_warp_specialized.cuh"

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
    using Kernel = WarpSpecializedKernel<half, Contiguous::kColumns, kB, WgmmaPolicy<kShape>>;
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
    // The policies of today: big, middle, small.
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}>(
        "128x256_s4_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}>(
        "128x128_s6_c2x1"),
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}>("128x64_s8_c1x1"),
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
    candidate<WgmmaShape{.tile_m = 128, .tile_n = 192, .stages = 4, .cluster_m = 2}>(
        "128x192_s4_c2x1"),
};

}  // namespace ws::gemm
