// Idea: the last six steps are one warp's: its lanes meet without the rest of the block.
// From add_on_load: six barriers of the block less.
// Traffic: as before.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct LastWarpKernel {
  static constexpr int kThreads = 256;
  static constexpr int64_t kPerBlock = 2 * kThreads;
  static constexpr int64_t kMostBlocks = kAnyBlocks;
  using Arguments = SumArguments;
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    const int64_t i = block_index() * kPerBlock + t;
    float sum = i < a.count ? thread::load(a.x + i) : 0.0F;
    if (i + kThreads < a.count) sum += thread::load(a.x + i + kThreads);
    shared.sums[t] = sum;
    ptx::barrier_sync();
    for (int half = kThreads / 2; half > kWarpSize; half /= 2) {
      if (t < half) shared.sums[t] = shared.sums[t] + shared.sums[t + half];
      ptx::barrier_sync();
    }
    if (t < kWarpSize) add_last_warp(shared, t);
    if (t == 0) thread::store(a.sums + block_index(), shared.sums[0]);
  }

  // The last 64 sums, by one warp: between a step's loads and its stores its lanes meet.
  __device__ __forceinline__ static void add_last_warp(SharedStorage& shared, int t) {
    for (int half = kWarpSize; half > 0; half /= 2) {
      const float sum = shared.sums[t] + shared.sums[t + half];
      ptx::syncwarp();
      shared.sums[t] = sum;
      ptx::syncwarp();
    }
  }
};

inline constexpr Seed kLastWarpSeeds[] = {
    {.name = "reduce_v4_unroll_last_warp", .operation = "sum"}};
inline constexpr Rung kLastWarp = rung_of<SumInLaunches<LastWarpKernel>, kF32, Sum>(
    {.name = "last_warp",
     .from = "add_on_load",
     .idea = "the last steps belong to one warp: no barriers of the block",
     .seeds = kLastWarpSeeds});

}  // namespace ws::reduce
