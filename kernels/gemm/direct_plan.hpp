// Tiles of mma_direct, and what a call of it is thought to take, in microseconds of an H200.
#pragma once

#include "kernels/gemm/plan.hpp"

namespace ws::gemm {

// What can be chosen: the tile of a block, and how many warps divide K.
struct DirectShape {
  int tile_m;
  int tile_n;
  int warps;
};

template <DirectShape kShape>
struct DirectPolicy {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kWarps = kShape.warps;
  static constexpr int kThreads = kWarps * kWarpSize;
  static_assert(kTileM % 16 == 0 && kTileN % 8 == 0, "whole products of mma.sync");
};
// kRound is the time of 32 of K of each warp, and kAcross that where an operand does not run along
// K and is loaded by more than elements; kShared what each further block of an SM adds to it. H200
// 2026-12-01, f16, nt and nn, us: 16 x 16 100^3 4.8 and 6.4, 101^3 5.1 and 4.9, 201^3 5.8,
// 301^3 7.4 and 7.7, 509^3 13.5 and 16.0; 16 x 32 100^3 5.3 and 5.3, 300^3 7.4 and 8.6; 32 x 32
// 401^3 9.0, 509^3 9.9 and 11.6. Four warps for eight, and sixteen, are slower (100^3 5.1 and 6.9,
// 301^3 8.7 and 8.9).
struct Direct16 : DirectPolicy<DirectShape{.tile_m = 16, .tile_n = 16, .warps = 8}> {
  static constexpr double kRound = 0.8, kAcross = 1.3, kShared = 0.5;
};
struct Direct32 : DirectPolicy<DirectShape{.tile_m = 16, .tile_n = 32, .warps = 8}> {
  static constexpr double kRound = 1.15, kAcross = 1.0, kShared = 0.8;
};
struct DirectSquare : DirectPolicy<DirectShape{.tile_m = 32, .tile_n = 32, .warps = 8}> {
  static constexpr double kRound = 2.0, kAcross = 2.0, kShared = 0.8;
};
using DirectPolicies = PolicyList<Direct16, Direct32, DirectSquare>;

// Whether rows of A and B begin at multiples of 8 bytes.
inline bool begin_at_8(const Call& call) {
  return std::min(alignment_of(call.a, call.dtype), alignment_of(call.b, call.dtype)) >= 8;
}

struct DirectPlan {
  int policy = 0;
  double time = kNever;
};
inline DirectPlan plan_direct(const Call& call) {
  constexpr double kDirectStart = 4.3;
  constexpr int64_t kSlice = 32;
  const int multiprocessors = device_facts().multiprocessors;
  const bool along_k =
      call.a.contiguous == Contiguous::kColumns && call.b.contiguous == Contiguous::kRows;
  const bool across = begin_at_8(call) && !along_k;
  DirectPlan best;
  for (int policy = 0; policy < DirectPolicies::kCount; ++policy) {
    DirectPolicies::with(policy, [&]<class Policy>() {
      const int64_t tiles = divide_up(call.m, Policy::kTileM) * divide_up(call.n, Policy::kTileN);
      const auto rounds = static_cast<double>(divide_up(call.k, kSlice * Policy::kWarps));
      const auto others = static_cast<double>(divide_up(tiles, multiprocessors) - 1);
      const double round = across ? Policy::kAcross : Policy::kRound;
      const double time = kDirectStart + rounds * (round + others * Policy::kShared);
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}

}  // namespace ws::gemm
