// Idea: the block's size is known while compiling, so the steps need no loop.
// From last_warp: no counter, no comparison, all addresses constants.
// Traffic: as before.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct UnrolledKernel {
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
    add_halves<kThreads / 2>(shared, t);
    if (t < kWarpSize) add_last_warp<kWarpSize>(shared, t);
    if (t == 0) thread::store(a.sums + block_index(), shared.sums[0]);
  }

  template <int kHalf>
  __device__ __forceinline__ static void add_halves(SharedStorage& shared, int t) {
    if constexpr (kHalf > kWarpSize) {
      if (t < kHalf) shared.sums[t] = shared.sums[t] + shared.sums[t + kHalf];
      ptx::barrier_sync();
      add_halves<kHalf / 2>(shared, t);
    }
  }
  template <int kHalf>
  __device__ __forceinline__ static void add_last_warp(SharedStorage& shared, int t) {
    if constexpr (kHalf > 0) {
      const float sum = shared.sums[t] + shared.sums[t + kHalf];
      ptx::syncwarp();
      shared.sums[t] = sum;
      ptx::syncwarp();
      add_last_warp<kHalf / 2>(shared, t);
    }
  }
};

inline constexpr Seed kUnrolledSeeds[] = {
    {.name = "reduce_v5_completely_unroll", .operation = "sum"}};
inline constexpr Rung kUnrolled =
    rung_of<SumInLaunches<UnrolledKernel>, kF32, Sum>({.name = "unrolled",
                                                       .from = "last_warp",
                                                       .idea = "all steps unrolled by templates",
                                                       .seeds = kUnrolledSeeds});

}  // namespace ws::reduce
