// Idea: lanes of a warp hand sums from register to register; shared memory sees one of each warp.
// From several_a_thread: five shuffles for eight steps, one barrier.
// Traffic: every element once, 4 bytes a thread and load.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::reduce {

struct ShuffleKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int64_t kPerBlock = kThreads;
  static constexpr int64_t kMostBlocks = 1024;
  using Arguments = SumArguments;
  struct SharedStorage {
    SharedArray<float, kWarps> sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    float sum = 0;
    for (int64_t i = block_index() * kThreads + t; i < a.count; i += grid_blocks() * kThreads) {
      sum += thread::load(a.x + i);
    }
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      sum += warp::shuffle_down(sum, distance);
    }
    if (lane_index() == 0) shared.sums[warp_index()] = sum;
    ptx::barrier_sync();
    if (t < kWarpSize) {
      sum = t < kWarps ? shared.sums[t] : 0.0F;
      for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
        sum += warp::shuffle_down(sum, distance);
      }
      if (t == 0) thread::store(a.sums + block_index(), sum);
    }
  }
};

inline constexpr Seed kShuffleSeeds[] = {{.name = "reduce_v7_shfl_down", .operation = "sum"}};
inline constexpr Rung kShuffle = rung_of<SumInLaunches<ShuffleKernel>, kF32, Sum>(
    {.name = "shuffle",
     .from = "several_a_thread",
     .idea = "warps add by shuffles, one barrier a block",
     .seeds = kShuffleSeeds});

}  // namespace ws::reduce
