// Idea: Hillis and Steele among the 32 lanes of a warp by shuffles; then the warps' totals once
// more. Work that is done in registers may be wasted, and a row of 512 takes one barrier, not ten.
// From hillis_steele: registers to registers.
// Traffic: one read, one write; a word a warp through shared memory.
// Limits: one element a thread and load: few bytes in flight.
#pragma once

#include "kernels/scan/plain.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class T>
struct WarpScanKernel {
  static constexpr int kThreads = 512;
  static constexpr int kRowsOfBlock = 1;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = PlainRows<T>;
  struct SharedStorage {
    SharedArray<float, kWarps> totals;
  };

  template <int kLanes>
  __device__ __forceinline__ static float scan(float sum) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const float left = warp::shuffle_up<kLanes>(sum, distance);
      if (lane_index() % kLanes >= distance) sum += left;
    }
    return sum;
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const T* x = a.x + block_index() * a.columns;
    T* y = a.y + block_index() * a.columns;
    float carry = 0;
    for (int64_t start = 0; start < a.columns; start += kThreads) {
      const int64_t i = start + thread_index();
      const float sum = scan<kWarpSize>(i < a.columns ? to_float(thread::load(x + i)) : 0.0F);
      if (lane_index() == kWarpSize - 1) shared.totals[warp_index()] = sum;
      ptx::barrier_sync();
      const float total = shared.totals[lane_index() % kWarps];
      const float totals = scan<kWarps>(total);
      const float before = warp::shuffle<kWarps>(totals, warp_index() == 0 ? 0 : warp_index() - 1);
      const float prefix = warp_index() == 0 ? carry : carry + before;
      if (i < a.columns) thread::store(y + i, from_float<T>(prefix + sum));
      carry += warp::shuffle<kWarps>(totals, kWarps - 1);
      ptx::barrier_sync();
    }
  }
};

inline constexpr Rung kWarpScan = rung_of<Plain<WarpScanKernel>, kFloats, Cumsum>(
    {.name = "warp_scan",
     .from = "hillis_steele",
     .idea = "shuffles among lanes, then among the warps' totals"});

}  // namespace ws::scan
#endif
