// The policies of the tensor-core rungs: tile shapes, and which of them a call gets. What else was
// considered stands in candidates.hpp, where the tuner measures it.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/device.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::gemm {

// ---- mma_pipeline -------------------------------------------------------------------------------

// What can be chosen: the tile of a block and of its warps, stages, blocks that share an SM.
struct MmaShape {
  int tile_m;
  int tile_n;
  int stages;
  int warp_m;
  int warp_n;
  int blocks = 1;
  bool only_aligned = true;  // 16-byte copies only
};

template <MmaShape kShape>
struct MmaPolicy {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = 64;
  static constexpr int kStages = kShape.stages;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kWarpTileM = kShape.warp_m;
  static constexpr int kWarpTileN = kShape.warp_n;
  static constexpr int kWarpsN = kTileN / kWarpTileN;
  static constexpr int kThreads = kTileM / kWarpTileM * kWarpsN * kWarpSize;
  static constexpr bool kOnlyAligned = kShape.only_aligned;
  static constexpr int kStageElements = (kTileM + kTileN) * kTileK;
  static_assert(kTileM % kWarpTileM == 0 && kTileN % kWarpTileN == 0, "whole warp tiles");
  static_assert(kStages * kStageElements >= kTileM * kTileN, "the epilogue reuses the stages");
};
// 144 KB: compute capability 8.0 and 9.0. H200 2026-11-20, f16 4096^3: 413-442 TFLOP/s.
using MmaWide =
    MmaPolicy<MmaShape{.tile_m = 128, .tile_n = 256, .stages = 3, .warp_m = 64, .warp_n = 64}>;
// 96 KB: everywhere, any alignment. H200 2026-11-20, f16 4097 x 4095 x 4099: 92 TFLOP/s.
using MmaSmall = MmaPolicy<MmaShape{
    .tile_m = 128, .tile_n = 128, .stages = 3, .warp_m = 64, .warp_n = 32, .only_aligned = false}>;

// The wide tile wants a data-centre GPU's shared memory, and enough tiles to go round.
inline bool choose_wide(const Call& call, int multiprocessors, int shared_bytes) {
  const int64_t tiles = divide_up(call.m, MmaWide::kTileM) * divide_up(call.n, MmaWide::kTileN);
  return tiles * 2 > multiprocessors &&
         shared_bytes >= MmaWide::kStages * MmaWide::kStageElements * 2;
}

// ---- warp_specialized ---------------------------------------------------------------------------

// What can be chosen. A cluster is cluster_m blocks down, which share B's tile, by cluster_n
// across, which share A's.
struct WgmmaShape {
  int tile_m;
  int tile_n;
  int stages;
  int cluster_m = 1;
  int cluster_n = 1;
  int store_buffers = 2;  // of 16 x 64 elements of C, of a warp
  int band = 2048;        // rows of C that running tiles should cover
};

template <WgmmaShape kShape>
struct WgmmaPolicy {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = 64;  // one 128-byte swizzle row of 16-bit elements
  static constexpr int kStages = kShape.stages;
  static constexpr int kClusterM = kShape.cluster_m;
  static constexpr int kClusterN = kShape.cluster_n;
  static constexpr int kCluster = kClusterM * kClusterN;
  static constexpr int kConsumers = 2;  // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kRowBlocks = kTileM / 64 / kConsumers;  // of 64 rows, of a consumer
  static constexpr int kStageBytes = (kTileM + kTileN) * kTileK * 2;
  static constexpr int kStoreBuffers = kShape.store_buffers;
  static constexpr int kStoreBytes = kConsumers * 4 * kStoreBuffers * 16 * 64 * 2;
  static constexpr int kSharedBytes = kStages * kStageBytes + kStoreBytes + 1024;
  // At entry a thread has 65536 / 384, rounded down to 168; what the producer gives back, the
  // consumers take.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;

  // The output in tiles of a cluster.
  static constexpr tile::Raster raster(const Call& call) {
    return raster_of(call, kTileM * kClusterM, kTileN * kClusterN, kShape.band);
  }

  static_assert(kTileM % (64 * kConsumers) == 0, "a consumer computes whole blocks of 64 rows");
  static_assert(kTileN % 64 == 0 && kTileN <= 256, "wgmma's widest; C is stored by 64 columns");
  static_assert(kRowBlocks * kTileN / 2 <= 128, "accumulators that a thread can hold");
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= 3 * 168);
  static_assert(kSharedBytes <= 227 * 1024, "shared memory of a block");
};

// The tile for every call: big tiles move least, small ones leave no SM idle.
// H200 2026-11-20, f16 4096^3: 756-760 TFLOP/s, 1.00 of cuBLASLt.
using WgmmaBig = WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}>;
// Between the two; no shape of the bench list gets it.
using WgmmaMiddle =
    WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}>;
// H200 2026-11-20, f16 1024^3: 203-217 TFLOP/s, 0.83-0.97 of cuBLASLt.
using WgmmaSmall = WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}>;

// Time of a call in units of a product per SM, from the waves of tiles that it takes. `efficiency`
// is the share of the big tile's rate that a policy reaches when all SMs are busy.
template <class Policy>
double estimated_time(const Call& call, int multiprocessors, double efficiency) {
  const int resident = std::max(1, multiprocessors / Policy::kCluster);
  const int waves = divide_up(Policy::raster(call).count(), resident);
  return static_cast<double>(waves) * Policy::kTileM * Policy::kTileN / efficiency;
}

enum class WgmmaChoice { kBig, kMiddle, kSmall };

// The shares of middle and small are estimates of 2026-11-20; candidates.hpp measures the tiles.
inline WgmmaChoice choose_wgmma(const Call& call, int multiprocessors) {
  const double big = estimated_time<WgmmaBig>(call, multiprocessors, 1.0);
  const double middle = estimated_time<WgmmaMiddle>(call, multiprocessors, 0.85);
  const double small = estimated_time<WgmmaSmall>(call, multiprocessors, 0.6);
  if (big <= middle && big <= small) return WgmmaChoice::kBig;
  return middle <= small ? WgmmaChoice::kMiddle : WgmmaChoice::kSmall;
}

}  // namespace ws::gemm
