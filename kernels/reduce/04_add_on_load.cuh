// Idea: each thread loads two elements and adds them before the first step.
// From sequential: half the blocks, two loads in flight a thread.
// Traffic: every element once, 4 bytes a thread and load.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct AddOnLoadKernel {
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
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (t < half) shared.sums[t] = shared.sums[t] + shared.sums[t + half];
      ptx::barrier_sync();
    }
    if (t == 0) thread::store(a.sums + block_index(), shared.sums[0]);
  }
};

inline constexpr Seed kAddOnLoadSeeds[] = {
    {.name = "reduce_v3_add_during_load", .operation = "sum"}};
inline constexpr Rung kAddOnLoad = rung_of<SumInLaunches<AddOnLoadKernel>, kF32, Sum>(
    {.name = "add_on_load",
     .from = "sequential",
     .idea = "two elements a thread, added while they are loaded",
     .seeds = kAddOnLoadSeeds});

}  // namespace ws::reduce
