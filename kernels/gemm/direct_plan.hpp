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
// kRound is the time of 32 of K for each warp, where rows start anywhere and where they begin at
// multiples of 8 bytes; kShared what it takes each further block of an SM.
struct Direct16 : DirectPolicy<DirectShape{.tile_m = 16, .tile_n = 16, .warps = 4}> {
  static constexpr double kRound = 1.3, kAligned = 0.5, kShared = 0.3;
};
struct Direct32 : DirectPolicy<DirectShape{.tile_m = 16, .tile_n = 32, .warps = 8}> {
  static constexpr double kRound = 1.25, kAligned = 1.1, kShared = 0.6;
};
struct DirectSquare : DirectPolicy<DirectShape{.tile_m = 32, .tile_n = 32, .warps = 8}> {
  static constexpr double kRound = 1.65, kAligned = 1.5, kShared = 1.6;
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
  DirectPlan best;
  for (int policy = 0; policy < DirectPolicies::kCount; ++policy) {
    DirectPolicies::with(policy, [&]<class Policy>() {
      const int64_t tiles = divide_up(call.m, Policy::kTileM) * divide_up(call.n, Policy::kTileN);
      const auto rounds = static_cast<double>(divide_up(call.k, kSlice * Policy::kWarps));
      const auto others = static_cast<double>(divide_up(tiles, multiprocessors) - 1);
      const double round = begin_at_8(call) ? Policy::kAligned : Policy::kRound;
      const double time = kDirectStart + rounds * (round + others * Policy::kShared);
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}

}  // namespace ws::gemm
