// Idea: a block adds up its 256 elements in shared memory, pairs first, then pairs of pairs.
// Traffic: every element once, 4 bytes a thread; a sum a block, added up by the next launch.
// Limits: which threads add is a remainder, so every warp runs every step for fewer and fewer
// lanes.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct DivergentKernel {
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
      if (t % (2 * step) == 0) shared.sums[t] = shared.sums[t] + shared.sums[t + step];
      ptx::barrier_sync();
    }
    if (t == 0) thread::store(a.sums + block_index(), shared.sums[0]);
  }
};

inline constexpr Seed kDivergentSeeds[] = {{.name = "reduce_v0_baseline", .operation = "sum"}};
inline constexpr Rung kDivergent = rung_of<SumInLaunches<DivergentKernel>, kF32, Sum>(
    {.name = "divergent",
     .idea = "a block adds up 256 elements in shared memory, pair by pair",
     .seeds = kDivergentSeeds});

}  // namespace ws::reduce
