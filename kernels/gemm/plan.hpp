// What a call of the tensor-core rungs is thought to take, to choose between rungs, tiles and
// splits. In microseconds of an H200; each constant was read off runs of the tuner on 2026-11-22
// (f16), and policies.hpp has those of a tile. What matters is which time is less.
#pragma once

#include "kernels/gemm/policies.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/tile/stream_k.hpp"

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

// A tile that is larger than the matrix: the copy engine fills the rest with zeros, which takes it
// more time than rows that are there (tile::pulled_in). By how much a tile's time grows.
constexpr double edge_factor(int64_t tile, int64_t extent) {
  constexpr double kEmpty = 0.8;
  const double empty = tile > extent ? static_cast<double>(tile - extent) : 0.0;
  return 1 + kEmpty * empty / static_cast<double>(tile);
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

// In pingpong, of a B whose panels of 64 a tile reads in part. H200 2026-11-28, f16, nn: 5120^3
// takes 362 us by tiles of 160 and 354 by warp_specialized, which the model has at the same.
template <class Policy>
double panel_factor(const Call& call) {
  const bool cut = Policy::kTileN % 64 != 0 && call.b.contiguous == Contiguous::kColumns;
  return Policy::kUsers == 1 && cut ? 1.03 : 1;
}

// A wave of tiles. A fifth sector a row costs the smaller tiles a third.
template <class Policy>
double wave_time(const Call& call) {
  const double sectors = Policy::kTileN == 256 || rows_are_sectors(call) ? 1 : 1.3;
  return static_cast<double>(divide_up(call.k, Policy::kTileK)) * Policy::kStep * sectors *
         panel_factor<Policy>(call) * edge_factor(Policy::kTileM, call.m) *
         edge_factor(Policy::kTileN, call.n);
}

// Between two waves of tiles that two warpgroups compute together no product is under way while
// the first is stored; in pingpong the other warpgroup has its own. H200 2026-11-26, f16: 8192 x
// 8192 x 512, 16 waves, takes 117 us, by pingpong 101.
constexpr double bare_stores_time(int waves) {
  constexpr double kBare = 1.4;
  return std::max(waves - 1, 0) * kBare;
}

// A block with one tile has one warpgroup of pingpong's at work, whose start and end nothing
// covers. H200 2026-11-28, f16, nt, by the tuner: 1536^3 17.3 us, by two warpgroups 16.4;
// 1280^3 13.5 and 12.9. Tiles of 64 rows are as fast alone: 1024^3 9.5 and 10.0.
template <class Policy>
constexpr double lone_tile_time(int waves) {
  constexpr double kLone = 1.2;
  return waves == 1 && Policy::kTileM > 64 ? kLone : 0;
}

// ---- warp_specialized, pingpong: whole waves of tiles -------------------------------------------

template <class Policy>
double whole_tiles_time(const Call& call) {
  const int waves = divide_up(Policy::raster(call).count(), clusters_of(Policy::kCluster));
  return kStart + std::max(waves * wave_time<Policy>(call), memory_time(call)) +
         (Policy::kUsers > 1 ? bare_stores_time(waves) : lone_tile_time<Policy>(waves));
}

// The policy of least estimated time.
struct WgmmaPlan {
  int policy = 0;
  double time = kNever;
};
template <class Policies>
WgmmaPlan plan_whole_tiles(const Call& call) {
  WgmmaPlan best;
  for (int policy = 0; policy < Policies::kCount; ++policy) {
    Policies::with(policy, [&]<class Policy>() {
      const double time = whole_tiles_time<Policy>(call);
      if (time < best.time) best = {policy, time};
    });
  }
  return best;
}
inline WgmmaPlan plan_wgmma(const Call& call) { return plan_whole_tiles<WgmmaPolicies>(call); }

inline WgmmaPlan plan_pingpong(const Call& call) {
  return plan_whole_tiles<PingpongPolicies>(call);
}

// ---- stream_k: parts of waves, and an exchange of sums ------------------------------------------

inline double stream_k_time(const Call& call) {
  constexpr double kExchange = 16;
  const int clusters = clusters_of(2);
  const int tiles = WgmmaBig::raster(call).count();
  const double waves = static_cast<double>(tiles) / clusters;
  // Many workers of one tile would be added by one of them.
  if (waves < 0.4) return kNever;
  // Blocks that are at different K share less in L2.
  const double slower = rows_are_sectors(call) ? 0.06 : 0.15;
  const double cut = static_cast<double>(tile::StreamK::of(tiles, 1, clusters).cut) / clusters;
  const double work = (waves + slower * cut) * wave_time<WgmmaBig>(call);
  return kStart + kExchange + std::max(work, memory_time(call)) +
         bare_stores_time(divide_up(tiles, clusters));
}

// ---- split_k: a tile, and parts of K ------------------------------------------------------------

struct SplitPlan {
  int policy = 0;
  int parts = 1;
  double time = kNever;
};
template <class Policy>
constexpr double step_alone() {
  if constexpr (requires { Policy::kAlone; }) {
    return Policy::kAlone;
  } else {
    return Policy::kStep;
  }
}

// Fitted to 18 shapes (2026-11-22) and 16 more (2026-11-28): of those what it chooses is 2 % slower
// than the fastest of 33 candidates, 5 % at most where split_k is what a call gets.
inline SplitPlan plan_split_k(const Call& call) {
  constexpr double kSplitStart = 5.5;
  constexpr double kExchange = 0.67;  // of the sums, for each part but one
  constexpr double kL2 = 9.1e6;       // bytes a us
  SplitPlan best;
  for (int policy = 0; policy < SplitPolicies::kCount; ++policy) {
    SplitPolicies::with(policy, [&]<class Policy>() {
      const Call turned = Policy::kTurned ? transposed(call) : call;
      if (!Policy::takes(turned.b.contiguous)) return;
      const int tiles = Policy::raster(turned).count();
      const auto steps = static_cast<int>(divide_up(call.k, Policy::kTileK));
      // Empty rows of the narrow box weigh by their share of all rows: 1 x 28672 x 8192 takes what
      // 16 rows take.
      constexpr int kRows = Policy::kTileM * Policy::kSharers + Policy::kTileN;
      const double edge =
          edge_factor(Policy::kTileM * Policy::kSharers, turned.m) *
          edge_factor(kRows, kRows - std::max<int64_t>(0, Policy::kTileN - turned.n));
      constexpr double kBytes = 128.0 * kRows;
      const double l2_time = static_cast<double>(tiles) * steps * kBytes / kL2 * edge;
      for (int parts = 1; parts <= std::min(8 / Policy::kSharers, steps); ++parts) {
        // Blocks that share an SM take their time together.
        const int waves = divide_up(tiles, clusters_of(parts * Policy::kSharers));
        const int alone = Policy::kMinBlocks > 1 ? waves % 2 : 0;
        const double work = divide_up(steps, parts) * edge *
                            ((waves - alone) * Policy::kStep + alone * step_alone<Policy>());
        const double time = kSplitStart + (parts - 1) * kExchange + Policy::kEnd +
                            std::max({work, l2_time, memory_time(call)});
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
