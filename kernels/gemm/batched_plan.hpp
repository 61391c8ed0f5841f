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

using BatchedPolicies = PolicyList<WgmmaBig, Wgmma128, Wgmma64>;
using BatchedTurnPolicies = PolicyList<Pingpong128, Pingpong128Alone, Low64>;

// What memory delivers and takes: what a call reads, a matrix that all products share once, and
// what it writes, in smaller pieces by smaller tiles.
template <class Policy>
double batched_memory_time(const BatchedCall& call) {
  constexpr double kWrites = kSmallTile<Policy> ? 2.8e6 : 3.4e6;  // bytes a us
  const auto bytes = [&](const Matrix& matrix) {
    return static_cast<double>(matrices_of_operand(call, matrix) * matrix.runs) *
           static_cast<double>(matrix.length) * static_cast<double>(size_of(call.dtype));
  };
  return (bytes(call.a) + bytes(call.b)) / kMemory + bytes(call.c) / kWrites;
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
// less: the first loads and the last stores are under nothing. H200 2026-11-30, f16, us, of
// batched_wgmma's three tiles and the three in turns, at 12 shapes (JOURNAL.md): it takes the
// fastest or what is within 2 % of it, once 5 %.
template <class Policy>
double batched_time(const BatchedCall& call, int multiprocessors) {
  constexpr double kBareStores = Policy::kUsers > 1 ? 1.0 * Policy::kTileN / 256 : 0;
  constexpr double kBare = 0.1;
  // 8 x 4096 x 4096 x 128 in 89.9, by WgmmaBig in 88.5.
  constexpr double kInTurns = Policy::kUsers == 1 && !kSmallTile<Policy> ? 1.04 : 1;
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
