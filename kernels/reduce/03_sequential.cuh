// Idea: add the upper half to the lower half: neighbours read neighbours, no bank is asked twice.
// From whole_warps: the step starts at half the block and shrinks.
// Traffic: as before.
// Limits: half of the threads never add anything.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/in_launches.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::reduce {

struct SequentialKernel {
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
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (t < half) shared.sums[t] = shared.sums[t] + shared.sums[t + half];
      ptx::barrier_sync();
    }
    if (t == 0) thread::store(a.sums + block_index(), shared.sums[0]);
  }
};

inline constexpr Seed kSequentialSeeds[] = {
    {.name = "reduce_v2_bank_conflict_free", .operation = "sum"}};
inline constexpr Rung kSequential = rung_of<SumInLaunches<SequentialKernel>, kF32, Sum>(
    {.name = "sequential",
     .from = "whole_warps",
     .idea = "the upper half is added to the lower half: no bank conflicts",
     .seeds = kSequentialSeeds});

}  // namespace ws::reduce
