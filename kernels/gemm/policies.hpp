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
// For products of few tiles whose rows no copy engine takes: as many blocks as there can be.
using MmaTiny = MmaPolicy<MmaShape{
    .tile_m = 32, .tile_n = 32, .stages = 4, .warp_m = 16, .warp_n = 16, .only_aligned = false}>;

// The wide tile wants a data-centre GPU's shared memory, and enough tiles to go round.
inline bool choose_wide(const Call& call, int multiprocessors, int shared_bytes) {
  const int64_t tiles = divide_up(call.m, MmaWide::kTileM) * divide_up(call.n, MmaWide::kTileN);
  return tiles * 2 > multiprocessors &&
         shared_bytes >= MmaWide::kStages * MmaWide::kStageElements * 2;
}

// ---- shifted ------------------------------------------------------------------------------------

// What can be chosen: the tile of a block and of its warps, and its slices. Two blocks share an SM.
struct ShiftedShape {
  int tile_m;
  int tile_n;
  int tile_k;
  int warp_m;
  int warp_n;
};

template <ShiftedShape kShape>
struct ShiftedPolicy {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = kShape.tile_k;
  static constexpr int kWarpTileM = kShape.warp_m;
  static constexpr int kWarpTileN = kShape.warp_n;
  static constexpr int kWarpsN = kTileN / kWarpTileN;
  static constexpr int kThreads = kTileM / kWarpTileM * kWarpsN * kWarpSize;
  static constexpr int kMinBlocks = 2;
  static_assert(kTileM % kWarpTileM == 0 && kTileN % kWarpTileN == 0, "whole warp tiles");
};
// kStep is the time of a slice of a block that has an SM for itself, kShared of each of two that
// share one. H200 2026-11-30, f16, nt and nn: 509^3 11.7 and 11.6 us (mma_pipeline 15.9, 17.2),
// 31 x 8191 x 4093 45.8 and 44.9, by deeper slices 42.0 and 42.9 (realigned 70), 61 x 3001 x 2003
// 20.3 by the square tile.
struct ShiftedLow : ShiftedPolicy<ShiftedShape{
                        .tile_m = 32, .tile_n = 64, .tile_k = 64, .warp_m = 16, .warp_n = 16}> {
  static constexpr double kStep = 1.07, kShared = 1.27;
};
struct ShiftedDeep : ShiftedPolicy<ShiftedShape{
                         .tile_m = 32, .tile_n = 64, .tile_k = 128, .warp_m = 16, .warp_n = 16}> {
  static constexpr double kStep = 1.6, kShared = 2.28;
};
struct ShiftedSquare : ShiftedPolicy<ShiftedShape{
                           .tile_m = 64, .tile_n = 64, .tile_k = 64, .warp_m = 32, .warp_n = 16}> {
  static constexpr double kStep = 1.4, kShared = 1.85;
};

// ---- warp_specialized ---------------------------------------------------------------------------

// What can be chosen. A cluster is cluster_m blocks down, which share B's tile, by cluster_n
// across, which share A's.
struct WgmmaShape {
  int tile_m;
  int tile_n;
  int stages;
  int cluster_m = 1;
  int cluster_n = 1;
  int store_buffers = 2;  // of 16 rows of C, of a warp
  int band = 2048;        // rows of C that running tiles should cover
  int users = 2;          // warpgroups that compute a tile together; 1: each has its own (pingpong)
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
  static constexpr int kConsumers = 2;         // warpgroups
  static constexpr int kUsers = kShape.users;  // of them, of a stage
  static constexpr int kHelpers = 0;           // warps that do something to what was copied
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kRowBlocks = kTileM / 64 / kUsers;  // of 64 rows, of a consumer
  static constexpr int kStoreBuffers = kShape.store_buffers;
  // C is stored by 64 columns, and what is left of a tile's by 32, 16 or 8.
  static constexpr int kStoreColumns = kTileN >= 64 ? 64 : kTileN % 32 == 0 ? 32 : 16;
  static constexpr int kRest = kTileN % kStoreColumns;
  static constexpr int kRestColumns = kRest % 32 == 0 ? kRest : kRest % 16 == 0 ? 16 : 8;
  // At entry a thread has 65536 / 384, rounded down to 168; what the producer gives back, the
  // consumers take.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;

  // The output in tiles of a cluster.
  static constexpr tile::Raster raster(const Call& call) {
    return raster_of(call, kTileM * kClusterM, kTileN * kClusterN, kShape.band);
  }
  // Rows of an MN-major B that every other tile reads from the middle of a sector on cost too much:
  // 384 x 14336 x 4096 in nn takes 82 us by 168 columns, 67 by 176 (H200 2026-11-30).
  static constexpr bool takes(Contiguous b) { return kTileN % 16 == 0 || b == Contiguous::kRows; }

  static_assert(kTileM % (64 * kUsers) == 0, "a consumer computes whole blocks of 64 rows");
  static_assert(kTileN % (kTileN > 64 ? 8 : 16) == 0 && kTileN <= 256, "wgmma's widest");
  static_assert(kRowBlocks * kTileN / 2 <= 192, "accumulators that a thread can hold");
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= 3 * 168);
};

// Policies beside each other: one is chosen by its number.
template <class... Policies>
struct PolicyList {
  static constexpr int kCount = sizeof...(Policies);

  // f.template operator()<Policy>() of policy `number`.
  template <class F>
  static void with(int number, F&& f) {
    int i = 0;
    ((i++ == number ? f.template operator()<Policies>() : void()), ...);
  }
};

using ShiftedPolicies = PolicyList<ShiftedLow, ShiftedDeep, ShiftedSquare>;

// Big tiles move least; of smaller ones a wave may be full where one of the big is not. kStep is
// the time of 64 of K, in us: H200, f16, read off runs at 1024 to 8192 (2026-11-22; 224, 208, 144
// and 64 on 2026-11-29).
struct WgmmaBig
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}> {
  static constexpr double kStep = 0.70;
};
// A cluster is one tile high: for M that leave half of a cluster of two empty.
struct WgmmaBigAcross
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_n = 2}> {
  static constexpr double kStep = 0.705;
};
struct Wgmma224
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 224, .stages = 4, .cluster_m = 2}> {
  static constexpr double kStep = 0.61;
};
// Widths of 16, whose waves are full where those of 32 are not. H200 2026-11-29: 1792^3 in 20.7 us
// (224: 21.6), 2560^3 in 48.0 (144: 49.4, 224: 50.4).
struct Wgmma208
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 208, .stages = 4, .cluster_m = 2}> {
  static constexpr double kStep = 0.565;
};
struct Wgmma192
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 192, .stages = 4, .cluster_m = 2}> {
  static constexpr double kStep = 0.545;
};
struct Wgmma192Across
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 192, .stages = 4, .cluster_n = 2}> {
  static constexpr double kStep = 0.55;
};
// 1536^3 in 14.7 us (H200 2026-11-29; 160: 15.2).
struct Wgmma144
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 144, .stages = 5, .cluster_m = 2}> {
  static constexpr double kStep = 0.41;
};
struct Wgmma128
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}> {
  static constexpr double kStep = 0.365;
};
// Of two that share the larger operand memory is asked once: 8192 x 128 x 8192 in 37.9 us across,
// 45.9 down; 256 x 4096 x 4096 in 18.5 down, 22.1 across (H200 2026-11-29).
struct Wgmma64 : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8, .cluster_n = 2}> {
  static constexpr double kStep = 0.25;
};
struct Wgmma64Down
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8, .cluster_m = 2}> {
  static constexpr double kStep = 0.205;
};
// 3000 x 5000 x 7000 in 302 us, three full waves (H200 2026-11-30; WgmmaBig: 322).
struct WgmmaTall152
    : WgmmaPolicy<WgmmaShape{
          .tile_m = 256, .tile_n = 152, .stages = 4, .cluster_m = 2, .store_buffers = 1}> {
  static constexpr double kStep = 0.82;
};
using WgmmaPolicies =
    PolicyList<WgmmaBig, WgmmaBigAcross, Wgmma224, Wgmma208, Wgmma192, Wgmma192Across, Wgmma144,
               Wgmma128, Wgmma64, Wgmma64Down, WgmmaTall152>;

// ---- pingpong -----------------------------------------------------------------------------------

// Tiles of a warpgroup alone. kStep, of 64 of K, such that of the shapes of kernels/gemm/JOURNAL.md
// (2026-11-26 and 2026-11-29, H200, f16, nt and nn) the model takes the fastest or its neighbour.
struct Pingpong192 : WgmmaPolicy<WgmmaShape{
                         .tile_m = 128, .tile_n = 192, .stages = 4, .cluster_m = 2, .users = 1}> {
  static constexpr double kStep = 0.53;
};
// H200 2026-11-29: 2304^3 in 38.3 us, 512 x 11008 x 4096 in 63.5 (warp_specialized's 208: 43.7,
// 176: 64.3).
struct Pingpong176 : WgmmaPolicy<WgmmaShape{
                         .tile_m = 128, .tile_n = 176, .stages = 5, .cluster_m = 2, .users = 1}> {
  static constexpr double kStep = 0.485;
};
// Of three blocks of rows: 384 x 14336 x 4096 in 64.4 us (H200 2026-12-01; 168 across: 65.9).
struct PingpongTall112 : WgmmaPolicy<WgmmaShape{.tile_m = 192,
                                                .tile_n = 112,
                                                .stages = 5,
                                                .cluster_m = 2,
                                                .store_buffers = 1,
                                                .users = 1}> {
  static constexpr double kStep = 0.467;
  // Of another layout 176 columns are as good: 67.6 us.
  static constexpr bool takes(Contiguous b) { return b == Contiguous::kRows; }
};
struct Pingpong176Across
    : WgmmaPolicy<WgmmaShape{
          .tile_m = 128, .tile_n = 176, .stages = 5, .cluster_n = 2, .users = 1}> {
  static constexpr double kStep = 0.495;
};
// H200 2026-11-30: 512 x 11008 x 4096 in 63.8 us, 2048 x 11008 x 4096 in 237 (176: 65.0, 246),
// across 384 x 14336 x 4096 in 65.7 (66.6).
struct Pingpong168 : WgmmaPolicy<WgmmaShape{
                         .tile_m = 128, .tile_n = 168, .stages = 5, .cluster_m = 2, .users = 1}> {
  static constexpr double kStep = 0.465;
};
struct Pingpong168Across
    : WgmmaPolicy<WgmmaShape{
          .tile_m = 128, .tile_n = 168, .stages = 5, .cluster_n = 2, .users = 1}> {
  static constexpr double kStep = 0.475;
};
struct Pingpong160 : WgmmaPolicy<WgmmaShape{
                         .tile_m = 128, .tile_n = 160, .stages = 5, .cluster_m = 2, .users = 1}> {
  static constexpr double kStep = 0.447;
};
struct Pingpong144 : WgmmaPolicy<WgmmaShape{
                         .tile_m = 128, .tile_n = 144, .stages = 5, .cluster_m = 2, .users = 1}> {
  static constexpr double kStep = 0.43;
};
struct Pingpong128 : WgmmaPolicy<WgmmaShape{
                         .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2, .users = 1}> {
  static constexpr double kStep = 0.365;
};

// Low tiles, for products of one wave or two: their steps are short, so that as many SMs as there
// are have work. Blocks alone start sooner and ask more of L2 than pairs. kStep of H200 runs of
// 2026-11-29 (JOURNAL.md) at 33 shapes, f16, nt; of what ran there the model takes what is within
// 0.3 % of the fastest on average, 4 % at worst.
template <int kTileN, int kStages, int kPair>
using LowShape = WgmmaPolicy<WgmmaShape{
    .tile_m = 64, .tile_n = kTileN, .stages = kStages, .cluster_m = kPair, .users = 1}>;
struct Low224 : LowShape<224, 5, 1> {
  static constexpr double kStep = 0.30;
};
// 1280^3 in 11.8 us (H200 2026-11-30; 224: 12.2).
struct Low216 : LowShape<216, 5, 1> {
  static constexpr double kStep = 0.29;
};
struct Low128 : LowShape<128, 8, 1> {
  static constexpr double kStep = 0.195;
};
struct Low128Pair : LowShape<128, 8, 2> {
  static constexpr double kStep = 0.20;
};
struct Low96 : LowShape<96, 8, 1> {
  static constexpr double kStep = 0.15;
};
struct Low96Pair : LowShape<96, 9, 2> {
  static constexpr double kStep = 0.155;
};
struct Low64 : LowShape<64, 12, 1> {
  static constexpr double kStep = 0.135;
};
struct Low64Pair : LowShape<64, 12, 2> {
  static constexpr double kStep = 0.135;
};
struct Low32 : LowShape<32, 12, 1> {
  static constexpr double kStep = 0.105;
};
using PingpongPolicies =
    PolicyList<Low32, Low64, Low64Pair, Low96, Low96Pair, Low128, Low128Pair, Low216, Low224,
               PingpongTall112, Pingpong192, Pingpong176, Pingpong176Across, Pingpong168,
               Pingpong168Across, Pingpong160, Pingpong144, Pingpong128>;

// ---- split_k ------------------------------------------------------------------------------------

// What can be chosen. A turned product is C^T = B^T A^T.
struct SplitShape {
  int tile_m;
  int tile_n;
  int stages;
  int blocks = 1;   // that share an SM
  int sharers = 1;  // blocks, one above the other, that load B for each other
  bool turned = false;
  int helpers = 0;  // warps that do something to what was copied
};

template <SplitShape kShape>
struct SplitPolicy {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = 64;
  static constexpr int kStages = kShape.stages;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kSharers = kShape.sharers;
  static constexpr bool kTurned = kShape.turned;
  static constexpr int kHelpers = kShape.helpers;
  static constexpr int kConsumers = kTileM / 64;  // warpgroups; after them a warp that copies
  static constexpr int kThreads = 128 * kConsumers + kWarpSize * (1 + kHelpers);
  static constexpr int kStageBytes = (kTileM + kTileN) * kTileK * 2;

  static constexpr tile::Raster raster(const Call& call) {
    return raster_of(call, kTileM * kSharers, kTileN);
  }
  // MN-major operands come in panels of 64.
  static constexpr bool takes(Contiguous b) { return kTileN % 64 == 0 || b == Contiguous::kRows; }

  static_assert(kStages * kStageBytes + 2048 <= 227 * 1024 / kShape.blocks,
                "shared memory of a block");
};

// kStep as above, of a block that has an SM for itself, or of each of two that share one; kAlone,
// where two may and it was fitted, of one to which nobody came. kEnd is the time from the last
// product to C. H200 2026-11-22, f16, layout nt, beside the tuner's other candidates: M = 16 on
// 8192 x 8192 37 to 39 us (others 38 to 45), M = 64 39.6 (39.4 to 45), 256 x 4096 x 4096 20.3 (21.3
// to 27).
struct SplitThin16 : SplitPolicy<SplitShape{
                         .tile_m = 128, .tile_n = 16, .stages = 6, .blocks = 2, .turned = true}> {
  static constexpr double kStep = 0.27, kEnd = 0.4;
};
struct SplitThin32
    : SplitPolicy<SplitShape{
          .tile_m = 64, .tile_n = 32, .stages = 8, .blocks = 2, .sharers = 2, .turned = true}> {
  static constexpr double kStep = 0.12, kEnd = 1.5;
};
struct SplitThin64 : SplitPolicy<SplitShape{
                         .tile_m = 64, .tile_n = 64, .stages = 6, .blocks = 2, .turned = true}> {
  static constexpr double kStep = 0.17, kAlone = 0.27, kEnd = 1.2;
};
// H200 2026-11-28: 512^3 7.2 us (SplitThin64 7.8), M = 32 on 8192 x 8192 38.4 (SplitThin32 38.0).
struct SplitLow32 : SplitPolicy<SplitShape{
                        .tile_m = 64, .tile_n = 32, .stages = 8, .blocks = 2, .turned = true}> {
  static constexpr double kStep = 0.13, kAlone = 0.14, kEnd = 1.1;
};
// H200 2026-11-28: 96 x 6144 x 4096 20.8 us (SplitSquare 23.1).
struct SplitLow96 : SplitPolicy<SplitShape{
                        .tile_m = 64, .tile_n = 96, .stages = 5, .blocks = 2, .turned = true}> {
  static constexpr double kStep = 0.21, kAlone = 0.3, kEnd = 1.8;
};
// H200 2026-11-28: 48 x 5120 x 13824 42.3 us (SplitWide64 43.1).
struct SplitWide48
    : SplitPolicy<SplitShape{.tile_m = 128, .tile_n = 48, .stages = 8, .turned = true}> {
  static constexpr double kStep = 0.25, kEnd = 1.2;
};
// 48 x 5120 x 13824 43.2 us (SplitThin64 45.0), 64 x 8192 x 8192 38.0 (38.8).
struct SplitWide64
    : SplitPolicy<SplitShape{.tile_m = 128, .tile_n = 64, .stages = 8, .turned = true}> {
  static constexpr double kStep = 0.3, kEnd = 1.6;
};
struct SplitHalf : SplitPolicy<SplitShape{.tile_m = 128, .tile_n = 64, .stages = 8}> {
  static constexpr double kStep = 0.2, kEnd = 1.5;
};
struct SplitHalfPair
    : SplitPolicy<SplitShape{.tile_m = 128, .tile_n = 64, .stages = 8, .sharers = 2}> {
  static constexpr double kStep = 0.17, kEnd = 1.8;
};
struct SplitSquare : SplitPolicy<SplitShape{.tile_m = 128, .tile_n = 128, .stages = 6}> {
  static constexpr double kStep = 0.285, kEnd = 3.5;
};
using SplitPolicies = PolicyList<SplitThin16, SplitThin32, SplitThin64, SplitLow32, SplitLow96,
                                 SplitWide48, SplitWide64, SplitHalf, SplitHalfPair, SplitSquare>;

// ---- split_clusters -----------------------------------------------------------------------------

// A tile in pairs, and how many clusters divide K. kStep as above, with a block on all SMs; kEnd is
// what the exchange of the sums adds. H200 2026-11-30, f16, nt and nn: 512 x 512 x 16384 20.5 and
// 20.8 us by eight parts (split_k 27.6, 27.0), 22.9 and 22.7 by four of 64 columns; 1024 x 1024 x
// 8192 29.9 and 29.7 by two; 512 x 512 x 4096 11.0 by four of 64 columns (13.0).
template <class TileShape, int kPartsOfK>
struct ClustersPolicy {
  using Tile = TileShape;
  static constexpr int kParts = kPartsOfK;
};
using Clusters128 =
    WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2, .band = 256}>;
using Clusters64 =
    WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8, .cluster_n = 2}>;
struct Clusters128By2 : ClustersPolicy<Clusters128, 2> {
  static constexpr double kStep = 0.335, kEnd = 3.0;
};
struct Clusters128By4 : ClustersPolicy<Clusters128, 4> {
  static constexpr double kStep = 0.335, kEnd = 3.9;
};
struct Clusters128By8 : ClustersPolicy<Clusters128, 8> {
  static constexpr double kStep = 0.335, kEnd = 4.6;
};
struct Clusters64By4 : ClustersPolicy<Clusters64, 4> {
  static constexpr double kStep = 0.26, kEnd = 1.7;
};
using ClustersPolicies = PolicyList<Clusters128By2, Clusters128By4, Clusters128By8, Clusters64By4>;

// ---- thin ---------------------------------------------------------------------------------------

// What can be chosen: threads of a block, rows of the long operand of a warp, vectors of each that
// it has in flight, blocks that an SM should hold.
struct ThinShape {
  int threads;
  int rows;
  int vectors;
  int blocks;
};

template <ThinShape kShape, int kColumnsOfB>
struct ThinPolicy {
  static constexpr int kThreads = kShape.threads;
  static constexpr int kRows = kShape.rows;
  static constexpr int kVectors = kShape.vectors;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kColumns = kColumnsOfB;
};

// By the columns of B that a kernel computes. H200 2026-11-22, layout nt, beside the tuner's ten
// others, of cuBLASLt's time: 1 x 8192 x 8192 f16 34.7 us (34.7 to 38.4) of 40.6, f32 64.4 of 92.7,
// 2 f16 35.6 (35.6 to 44.9) of 41.6, f32 65.2 of 137, 4 f32 67.0 (67.0 to 92.5) of 140, 8 f32 86.9
// (86.9 to 297) of 139.
constexpr ThinShape thin_shape(int columns) {
  switch (columns) {
    case 1: return {.threads = 128, .rows = 1, .vectors = 4, .blocks = 4};
    case 2: return {.threads = 128, .rows = 2, .vectors = 8, .blocks = 4};
    case 4: return {.threads = 256, .rows = 2, .vectors = 4, .blocks = 2};
    default: return {.threads = 128, .rows = 2, .vectors = 2, .blocks = 4};
  }
}

}  // namespace ws::gemm
