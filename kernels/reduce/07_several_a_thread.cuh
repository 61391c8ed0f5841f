// Idea: 1024 blocks at most, whose threads walk through the tensor and add as they go.
// From unrolled: the steps in shared memory are paid once for many elements, and two launches do.
// Traffic: every element once, 4 bytes a thread and load.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct SeveralAThreadKernel {
  static constexpr int kThreads = 256;
  static constexpr int64_t kPerBlock = kThreads;
  static constexpr int64_t kMostBlocks = 1024;
  using Arguments = SumArguments;
  struct SharedStorage {
    SharedArray<float, kThreads> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    float sum = 0;
    for (int64_t i = block_index() * kThreads + t; i < a.count; i += grid_blocks() * kThreads) {
      sum += thread::load(a.x + i);
    }
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

inline constexpr Seed kSeveralAThreadSeeds[] = {
    {.name = "reduce_v6_multi_add", .operation = "sum"}};
inline constexpr Rung kSeveralAThread = rung_of<SumInLaunches<SeveralAThreadKernel>, kF32, Sum>(
    {.name = "several_a_thread",
     .from = "unrolled",
     .idea = "few blocks; each thread adds many elements before it meets others",
     .seeds = kSeveralAThreadSeeds});

}  // namespace ws::reduce
