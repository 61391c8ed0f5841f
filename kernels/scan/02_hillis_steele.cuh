// Idea: log2(n) steps; in the one with distance d each element adds the one d to its left. Two
// arrays change roles from step to step, so that nobody overwrites what a neighbour still reads.
// From naive: a block works on a row, 512 elements at a time, with what came before as a carry.
// Traffic: one read, one write; nine passes through shared memory.
// Limits: n log2(n) additions for n - 1 that are needed; a barrier a step.
#pragma once

#include "kernels/scan/plain.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class T>
struct HillisSteeleKernel {
  static constexpr int kThreads = 512;
  static constexpr int kRowsOfBlock = 1;
  using Arguments = PlainRows<T>;
  struct SharedStorage {
    SharedArray<float, 2 * kThreads> sums;  // one half is read, the other written
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    const T* x = a.x + block_index() * a.columns;
    T* y = a.y + block_index() * a.columns;
    float carry = 0;
    for (int64_t start = 0; start < a.columns; start += kThreads) {
      const int64_t i = start + t;
      int from = 0;
      int to = kThreads;
      shared.sums[t] = i < a.columns ? to_float(thread::load(x + i)) : 0.0F;
      ptx::barrier_sync();
      for (int distance = 1; distance < kThreads; distance *= 2) {
        float sum = shared.sums[from + t];
        if (t >= distance) sum += shared.sums[from + t - distance];
        shared.sums[to + t] = sum;
        from = to;
        to = kThreads - from;
        ptx::barrier_sync();
      }
      if (i < a.columns) thread::store(y + i, from_float<T>(carry + shared.sums[from + t]));
      carry += shared.sums[from + kThreads - 1];
      ptx::barrier_sync();
    }
  }
};

inline constexpr Seed kHillisSteeleSeeds[] = {
    {.name = "scan_hillis_steele", .operation = "cumsum", .dtypes = kFloats}};
inline constexpr Rung kHillisSteele = rung_of<Plain<HillisSteeleKernel>, kFloats, Cumsum>(
    {.name = "hillis_steele",
     .from = "naive",
     .idea = "log2(n) steps in shared memory, each adds the element d to the left",
     .seeds = kHillisSteeleSeeds});

}  // namespace ws::scan
#endif
