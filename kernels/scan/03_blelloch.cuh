// Idea: up a tree, then down: sums of pairs, of pairs of pairs, ...; then each node hands what lies
// before it to its left child, and that with the left child's sum to its right one. 2 n additions
// instead of n log2(n). A word of padding for every 32 spreads the strides over the banks.
// From hillis_steele: work that grows as n; two elements a thread.
// Traffic: one read, one write.
// Limits: twice as many steps, in most of which most threads wait.
#pragma once

#include "kernels/scan/plain.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class T>
struct BlellochKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRowsOfBlock = 1;
  static constexpr int kElements = 2 * kThreads;
  using Arguments = PlainRows<T>;
  struct SharedStorage {
    SharedArray<float, kElements + kElements / 32> sums;
  };
  __device__ __forceinline__ static int padded(int i) { return i + i / 32; }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int t = thread_index();
    const T* x = a.x + block_index() * a.columns;
    T* y = a.y + block_index() * a.columns;
    const auto load = [&](int64_t i) {
      return i < a.columns ? to_float(thread::load(x + i)) : 0.0F;
    };
    float carry = 0;
    for (int64_t start = 0; start < a.columns; start += kElements) {
      const float own[] = {load(start + t), load(start + kThreads + t)};
      shared.sums[padded(t)] = own[0];
      shared.sums[padded(kThreads + t)] = own[1];
      ptx::barrier_sync();
      for (int half = 1; half < kElements; half *= 2) {  // up: node r takes in the one before it
        const int r = 2 * half * (t + 1) - 1;
        if (r < kElements) {
          shared.sums[padded(r)] = shared.sums[padded(r)] + shared.sums[padded(r - half)];
        }
        ptx::barrier_sync();
      }
      const float total = shared.sums[padded(kElements - 1)];
      ptx::barrier_sync();
      if (t == 0) shared.sums[padded(kElements - 1)] = 0.0F;
      ptx::barrier_sync();
      for (int half = kElements / 2; half > 0; half /= 2) {  // down
        const int r = 2 * half * (t + 1) - 1;
        if (r < kElements) {
          const float left = shared.sums[padded(r - half)];
          const float before = shared.sums[padded(r)];
          shared.sums[padded(r - half)] = before;
          shared.sums[padded(r)] = before + left;
        }
        ptx::barrier_sync();
      }
#pragma unroll
      for (int k = 0; k < 2; ++k) {  // the tree gives exclusive sums
        const int64_t i = start + k * kThreads + t;
        const float before = shared.sums[padded(k * kThreads + t)];
        if (i < a.columns) thread::store(y + i, from_float<T>(carry + before + own[k]));
      }
      carry += total;
      ptx::barrier_sync();
    }
  }
};

inline constexpr Seed kBlellochSeeds[] = {
    {.name = "scan_blelloch_work_efficient", .operation = "cumsum", .dtypes = kFloats}};
inline constexpr Rung kBlelloch = rung_of<Plain<BlellochKernel>, kFloats, Cumsum>(
    {.name = "blelloch",
     .from = "hillis_steele",
     .idea = "up and down a tree in shared memory: 2 n additions, padded against bank conflicts",
     .seeds = kBlellochSeeds});

}  // namespace ws::scan
#endif
