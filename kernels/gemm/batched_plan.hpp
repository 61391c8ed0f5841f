// What the Hopper rungs of a batch are thought to take, to choose between rungs and tiles: plan.hpp
// for bmm.
#pragma once

#include "kernels/gemm/batched.hpp"
#include "kernels/gemm/plan.hpp"

namespace ws::gemm {

// Of a batch whose products are too low for two of a cluster. H200 2026-11-30, f16, nn: 256 x 128^3
// in 10.5 us, in pairs 11.2; 32 x 1024^3 in 117, in pairs 101.
struct Pingpong128Alone
    : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .users = 1}> {
  static constexpr double kStep = 0.44;
};

// In pairs; of a batch bands of half the height. H200 2026-12-01, f16, bands of 2048 and of 1024
// rows: 8 x 4096 x 4096 x 128 in 90.1 us and 88.3, 32 x 1024^3 in 102.3 and 101.9.
struct BatchedTurns128
    : WgmmaPolicy<WgmmaShape{
          .tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2, .band = 1024, .users = 1}> {
  static constexpr double kStep = Pingpong128::kStep;
};
// Of products of one column of tiles: nobody shares A, and B is small. H200 2026-12-01, f16, us, of
// tiles of 128 rows and of 256, both alone, and of pairs across, in turns by 64: 64 x 512 x 64 x
// 512 14.5, 13.9, 15.9, 15.3 (cuBLAS 14.2); 256 of them 43.2, 42.3, 45.2, 45.8 (42.2); 128 x 256 x
// 64 x 256 10.7, 10.3, 11.6, 11.3 (10.7); 40 x 384 x 64 x 1024 13.9, 14.8, 14.8, 14.8 (13.7).
struct BatchedNarrow : WgmmaPolicy<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}> {
  static constexpr double kStep = 0.29;
};
struct BatchedTallNarrow : WgmmaPolicy<WgmmaShape{.tile_m = 256, .tile_n = 64, .stages = 5}> {
  static constexpr double kStep = 0.50;
};

using BatchedPolicies = PolicyList<WgmmaBig, Wgmma128, BatchedNarrow, BatchedTallNarrow>;
// In turns, whatever the dtype of C.
using BatchedTurnPolicies = PolicyList<BatchedTurns128, Pingpong128Alone, Low64>;
// Of C in f32 where lanes store it, for its rows start anywhere.
using BatchedWidePlainPolicies = PolicyList<Wgmma128>;

// What memory delivers and takes: what a call reads, a matrix that all products share once, and
// what it writes, in smaller pieces by narrow tiles.
template <class Policy>
double batched_memory_time(const BatchedCall& call) {
  const bool cuts_rows = Policy::kTileN <= 64 && call.n > Policy::kTileN;
  const double writes = cuts_rows ? 2.8e6 : 3.4e6;  // bytes a us
  const auto bytes = [&](const Matrix& matrix, DType dtype) {
    return static_cast<double>(matrices_of_operand(call, matrix) * matrix.runs) *
           static_cast<double>(matrix.length) * static_cast<double>(size_of(dtype));
  };
  return (bytes(call.a, call.dtype) + bytes(call.b, call.dtype)) / kMemory +
         bytes(call.c, call.out_dtype) / writes;
}
// What L2 delivers to small tiles, of operands that are many.
template <class Policy>
double batched_l2_time(const BatchedCall& call) {
  if constexpr (!kSmallTile<Policy>) {
    return 0;
  } else {
    constexpr double kRate = 10.5e6;  // bytes a us
    constexpr double kStep =
        128.0 * (static_cast<double>(Policy::kTileM) / Policy::kClusterN +
                 static_cast<double>(round_up(Policy::kTileN, 64)) / Policy::kClusterM);
    const auto tiles =
        static_cast<double>(call.batch * Policy::raster(call).count()) * Policy::kCluster;
    return tiles * static_cast<double>(divide_up(call.k, Policy::kTileK)) * kStep / kRate *
           (rows_are_sectors(call) ? 1 : 2.5) * edge_factor<Policy>(call);
  }
}

// Waves of tiles of all products, or what memory or L2 have to deliver, and a little of what is
// less: the first loads and the last stores are under nothing. H200 2026-11-30, f16, of the three
// tiles that batched_wgmma had then, of 64 columns one in pairs across, and the three in turns, at
// 12 shapes (JOURNAL.md): it took the fastest or what is within 2 % of it, once 5 %.
template <class Policy>
double batched_time(const BatchedCall& call, int multiprocessors) {
  constexpr double kBareStores = Policy::kUsers > 1 ? 1.0 * Policy::kTileN / 256 : 0;
  constexpr double kBare = 0.1;
  // 8 x 4096 x 4096 x 128 in 89.9, by WgmmaBig in 88.5.
  constexpr double kInTurns = Policy::kUsers == 1 ? 1.04 : 1;
  const int64_t clusters = std::max(1, multiprocessors / Policy::kCluster);
  const auto waves =
      static_cast<double>(divide_up(call.batch * Policy::raster(call).count(), clusters));
  const double work = waves * (wave_time<Policy>(call) + kBareStores);
  const double bytes =
      std::max(kInTurns * batched_memory_time<Policy>(call), batched_l2_time<Policy>(call));
  return kStart + std::max(work, bytes) + kBare * std::min(work, bytes);
}
// The tile of least estimated time.
template <class Policies>
WgmmaPlan plan_batched(const BatchedCall& call, int multiprocessors) {
  WgmmaPlan best;
  for (int policy = 0; policy < Policies::kCount; ++policy) {
    Policies::with(policy, [&]<class Policy>() {
      const double time = batched_time<Policy>(call, multiprocessors);
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}

// ---- batched_mma --------------------------------------------------------------------------------

// Trips to memory, a slice of 32 after the other, and how many slices there are in all. H200
// 2026-12-01, f16, us, thought and taken: 64 x 31^3 4.7, 4.6; 256 x 31^3 5.1, 5.1; 64 x 17 x 31 x
// 65 6.0, 5.8; 64 x 63^3 5.6, 6.0; 16 x 100 x 101 x 102 8.2, 7.4; 64 x 127^3 14.4, 13.1; 512 x 63^3
// 13.3, 15.2; 2000 x 15^3 8.5, 7.8.
inline double batched_mma_time(const BatchedCall& call) {
  constexpr double kStartOfBlocks = 4;
  constexpr double kTrip = 0.55;
  constexpr double kSlice = 0.26;  // of a tile, of a multiprocessor
  const auto slices = static_cast<double>(divide_up(call.k, 32));
  const auto tiles =
      static_cast<double>(call.batch * divide_up(call.m, 32) * divide_up(call.n, 32));
  return kStartOfBlocks + slices * (kTrip + kSlice * tiles / device_facts().multiprocessors);
}

// ---- batched_shifted ----------------------------------------------------------------------------

// What can be chosen: the tile, warpgroups that multiply, warps that load, blocks of an SM.
struct BatchedShiftedShape {
  int tile_m;
  int tile_n;
  int stages;
  int consumers;
  int loaders;
  int blocks = 1;
};

inline constexpr BatchedShiftedShape kShiftedLarge{
    .tile_m = 128, .tile_n = 128, .stages = 3, .consumers = 2, .loaders = 8};
inline constexpr BatchedShiftedShape kShiftedSmall{
    .tile_m = 64, .tile_n = 64, .stages = 2, .consumers = 1, .loaders = 8, .blocks = 2};

// A wave of tiles: slices of K, and a tile's first loads and its stores. H200 2026-11-30, f16, us,
// thought and taken, large: 512 x 127^3 21.2, 22.3; 128 x 255^3 29.2, 31.6; 64 x 513^3 151, 143;
// 16 x 1023^3 150, 158; small: 512 x 63^3 9.4, 9.7; 64 x 31^3 6.7, 6.5; 1000 x 33^3 14.8, 15.0.
inline double shifted_time(const BatchedCall& call, const BatchedShiftedShape& shape) {
  constexpr double kStartOfBlocks = 4;
  constexpr double kSlice = 1;
  const double bare = shape.tile_m > 64 ? 2.3 : 1.7;
  const int64_t tiles =
      call.batch * divide_up(call.m, shape.tile_m) * divide_up(call.n, shape.tile_n);
  const int64_t waves = divide_up(tiles, int64_t{device_facts().multiprocessors} * shape.blocks);
  return kStartOfBlocks +
         static_cast<double>(waves) * (kSlice * static_cast<double>(divide_up(call.k, 64)) + bare);
}
inline double batched_shifted_time(const BatchedCall& call) {
  return std::min(shifted_time(call, kShiftedSmall), shifted_time(call, kShiftedLarge));
}

}  // namespace ws::gemm
