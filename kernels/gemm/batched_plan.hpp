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

// What a call reads and writes, a matrix that all products share once.
inline double batched_memory_time(const BatchedCall& call) {
  double elements = 0;
  for (const auto& [name, matrix] : matrices_of(call)) {
    elements += static_cast<double>(matrices_of_operand(call, matrix) * matrix.runs) *
                static_cast<double>(matrix.length);
  }
  return elements * static_cast<double>(size_of(call.dtype)) / kMemory;
}

// Waves of tiles of all products, or what memory or L2 have to deliver, and a little of what is
// less: the first loads and the last stores are under nothing.
template <class Policy>
double batched_time(const BatchedCall& call, int multiprocessors) {
  constexpr double kBareStores = Policy::kUsers > 1 ? 1.4 * Policy::kTileN / 256 : 0;
  constexpr double kBare = 0.1;
  const int64_t clusters = std::max(1, multiprocessors / Policy::kCluster);
  const auto waves =
      static_cast<double>(divide_up(call.batch * Policy::raster(call).count(), clusters));
  const double work = waves * (wave_time<Policy>(call) + kBareStores);
  const double bytes =
      std::max(batched_memory_time(call), static_cast<double>(call.batch) * l2_time<Policy>(call));
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
struct ShiftedShape {
  int tile_m;
  int tile_n;
  int stages;
  int consumers;
  int loaders;
  int blocks = 1;
};

// H200 2026-11-30 (JOURNAL.md): the large one where products are larger than a small tile.
inline constexpr ShiftedShape kShiftedLarge{
    .tile_m = 128, .tile_n = 128, .stages = 3, .consumers = 2, .loaders = 8};
inline constexpr ShiftedShape kShiftedSmall{
    .tile_m = 64, .tile_n = 64, .stages = 2, .consumers = 1, .loaders = 8, .blocks = 2};

// A wave of tiles: slices of K, and a tile's first loads and its stores. H200 2026-11-30, f16, us,
// thought and taken.
inline double shifted_time(const BatchedCall& call, const ShiftedShape& shape) {
  constexpr double kStartOfBlocks = 4;
  constexpr double kSlice = 0.95;
  const double bare = shape.tile_m > 64 ? 3.2 : 1.7;
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
