// What a call of the tensor-core rungs is thought to take, to choose between rungs, tiles and
// splits. In microseconds of an H200; each constant was read off runs of the tuner on 2026-11-22
// (f16), and policies.hpp has those of a tile. What matters is which time is less.
#pragma once

#include "kernels/gemm/policies.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::gemm {

constexpr double kNever = 1e30;
constexpr double kStart = 5;       // the launch, the first copies, the last stores
constexpr double kMemory = 4.2e6;  // bytes that memory delivers

inline double memory_time(const Call& call) {
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  return (m * k + n * k + m * n) * static_cast<double>(size_of(call.dtype)) / kMemory;
}

// How many clusters of `size` blocks, each with an SM for itself, are resident: larger ones find no
// place on all SMs of a group (cudaOccupancyMaxActiveClusters on an H200: 132, 66, 39, 30, ...).
inline int clusters_of(int size) {
  constexpr double kShare[] = {0, 1, 1, 0.89, 0.91, 0.83, 0.77, 0.795, 0.91};
  const int multiprocessors = device_facts().multiprocessors;
  return std::max(1, static_cast<int>(multiprocessors * kShare[size]) / size);
}

// Whether 128 bytes of a row along K are four sectors of 32 bytes, not parts of five.
inline bool rows_are_sectors(const Call& call) {
  const auto sectors = [](const Matrix& matrix, Contiguous along_k) {
    return matrix.contiguous != along_k || matrix.leading * 2 % 32 == 0;
  };
  return sectors(call.a, Contiguous::kColumns) && sectors(call.b, Contiguous::kRows);
}

// A wave of tiles. A fifth sector a row costs the smaller tiles a third.
template <class Policy>
double wave_time(const Call& call) {
  const double sectors = Policy::kTileN == 256 || rows_are_sectors(call) ? 1 : 1.3;
  return static_cast<double>(divide_up(call.k, Policy::kTileK)) * Policy::kStep * sectors;
}

// ---- warp_specialized: whole waves of tiles -----------------------------------------------------

template <class Policy>
double whole_tiles_time(const Call& call) {
  const int waves = divide_up(Policy::raster(call).count(), clusters_of(Policy::kCluster));
  return kStart + std::max(waves * wave_time<Policy>(call), memory_time(call));
}

// The policy of least estimated time.
struct WgmmaPlan {
  int policy = 0;
  double time = kNever;
};
inline WgmmaPlan plan_wgmma(const Call& call) {
  WgmmaPlan best;
  for (int policy = 0; policy < WgmmaPolicies::kCount; ++policy) {
    WgmmaPolicies::with(policy, [&]<class Policy>() {
      const double time = whole_tiles_time<Policy>(call);
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}

// ---- stream_k: parts of waves, and an exchange of sums ------------------------------------------

inline double stream_k_time(const Call& call) {
  constexpr double kExchange = 12;
  const double waves = static_cast<double>(WgmmaBig::raster(call).count()) / clusters_of(2);
  // Many workers of one tile would be added by one of them.
  if (waves < 0.4) return kNever;
  return kStart + kExchange + std::max(waves * wave_time<WgmmaBig>(call), memory_time(call));
}

// ---- split_k: a tile, and parts of K ------------------------------------------------------------

struct SplitPlan {
  int policy = 0;
  int parts = 1;
  double time = kNever;
};
inline SplitPlan plan_split_k(const Call& call) {
  constexpr double kExchange = 0.8;  // of the sums, for each part
  SplitPlan best;
  for (int policy = 0; policy < SplitPolicies::kCount; ++policy) {
    SplitPolicies::with(policy, [&]<class Policy>() {
      const Call turned = Policy::kTurned ? transposed(call) : call;
      // MN-major operands come in panels of 64.
      if (Policy::kTileN < 64 && turned.b.contiguous == Contiguous::kColumns) return;
      const int tiles = Policy::raster(turned).count();
      const auto steps = static_cast<int>(divide_up(call.k, Policy::kTileK));
      for (int parts = 1; parts <= std::min(8 / Policy::kSharers, steps); ++parts) {
        // Blocks that share an SM take their time together.
        const int waves = divide_up(tiles, clusters_of(parts * Policy::kSharers));
        const double wave = divide_up(steps, parts) * Policy::kStep + Policy::kEnd;
        const double time = kStart + (parts > 1 ? parts * kExchange : 0) +
                            std::max(waves * wave, memory_time(call) + Policy::kEnd);
        if (time < best.time) best = {policy, parts, time};
      }
    });
  }
  return best;
}

// ---- realigned: operands read and written once more, in a launch of its own ---------------------

inline double realigned_time(const Call& call) {
  constexpr double kLaunch = 3;
  return kLaunch + 2 * memory_time(call) +
         std::min({plan_split_k(call).time, whole_tiles_time<WgmmaBig>(call), stream_k_time(call)});
}

// mma_pipeline on the same rows, which it loads element by element.
inline double unaligned_mma_time(const Call& call) {
  constexpr double kStep = 2.5;
  const int64_t tiles = divide_up(call.m, MmaSmall::kTileM) * divide_up(call.n, MmaSmall::kTileN);
  const int64_t waves = divide_up(tiles, device_facts().multiprocessors);
  return kStart + static_cast<double>(waves * divide_up(call.k, MmaSmall::kTileK)) * kStep;
}

}  // namespace ws::gemm
