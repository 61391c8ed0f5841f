// Idea: the threads that add are the first ones, so whole warps drop out.
// From divergent: the remainder goes; thread t adds the pair at 2 * step * t.
// Traffic: as before.
// Limits: with a step of 16 floats all 32 lanes meet in one bank of shared memory.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct WholeWarpsKernel {
  static constexpr int kThreads = 256;
  static constexpr int64_t kPerBlock = kThreads;
  static constexpr int64_t kMostBlocks = kAnyBlocks;
  using Arguments = SumArguments;
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    const int64_t i = block_index() * kThreads + t;
    shared.sums[t] = i < a.count ? thread::load(a.x + i) : 0.0F;
    ptx::barrier_sync();
    for (int step = 1; step < kThreads; step *= 2) {
      const int at = 2 * step * t;
      if (at < kThreads) shared.sums[at] = shared.sums[at] + shared.sums[at + step];
      ptx::barrier_sync();
    }
    if (t == 0) thread::store(a.sums + block_index(), shared.sums[0]);
  }
};

inline constexpr Seed kWholeWarpsSeeds[] = {
    {.name = "reduce_v1_interleaved_addressing", .operation = "sum"}};
inline constexpr Rung kWholeWarps = rung_of<SumInLaunches<WholeWarpsKernel>, kF32, Sum>(
    {.name = "whole_warps",
     .from = "divergent",
     .idea = "threads that add are neighbours: no divergence within a warp",
     .seeds = kWholeWarpsSeeds});

}  // namespace ws::reduce
