// The threads that scan a channel together: how they scan segments, and who holds the states from
// one stretch of steps to the next.
#pragma once

#include "kernels/selective_scan/formula.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

// A warp: a state of each channel in each lane, and no barrier.
template <int kChannels>
class WarpTeam {
 public:
  static constexpr int kThreads = kWarpSize;
  static constexpr int64_t kStates = kWarpSize;
  struct Storage {};

  __device__ __forceinline__ explicit WarpTeam(Storage& /*storage*/) {}
  __device__ __forceinline__ static int rank() { return lane_index(); }

  // By the thread of rank n modulo kThreads.
  __device__ __forceinline__ void put(int k, int /*n*/, float x) { held_[k] = x; }
  __device__ __forceinline__ float own(int k, int /*n*/) const { return held_[k]; }
  // All threads: what was put is there; so is what was kept.
  __device__ __forceinline__ void meet() const {}
  // By all threads.
  __device__ __forceinline__ float state(int k, int n) const { return warp::shuffle(held_[k], n); }
  // What the steps of the threads before this one do.
  __device__ __forceinline__ Segment before(const Segment& own) {
    return warp::shift_up(warp::inclusive_scan(own, Join{}), Segment{});
  }
  // Each thread tells the state after its own steps; the last one's is kept.
  __device__ __forceinline__ void keep(int k, int n, float x) {
    const float last = warp::shuffle(x, kWarpSize - 1);
    if (lane_index() == n) held_[k] = last;
  }

 private:
  float held_[kChannels] = {};
};

// A block: states in shared memory, a barrier for each scan. Between keep() and the next state() of
// the same lies a barrier, that of before() or of meet().
template <int kWarps, int kChannels>
class BlockTeam {
  using Scan = block::ScanOfWarps<Segment, kWarps * kWarpSize>;

 public:
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int64_t kStates = kMostStates;
  struct Storage {
    typename Scan::Storage totals;
    SharedArray<float, kChannels* static_cast<int>(kMostStates)> states;
  };

  __device__ __forceinline__ explicit BlockTeam(Storage& storage)
      : scan_(storage.totals), states_(storage.states.span()) {}
  __device__ __forceinline__ static int rank() { return thread_index(); }

  __device__ __forceinline__ void put(int k, int n, float x) { states_[at(k, n)] = x; }
  __device__ __forceinline__ float own(int k, int n) const { return states_[at(k, n)]; }
  __device__ __forceinline__ void meet() const { ptx::barrier_sync(); }
  __device__ __forceinline__ float state(int k, int n) const { return states_[at(k, n)]; }
  __device__ __forceinline__ Segment before(const Segment& own) {
    const Segment inclusive = warp::inclusive_scan(own, Join{});
    const Segment lower = warp::shift_up(inclusive, Segment{});
    const auto found = scan_(warp::shuffle(inclusive, kWarpSize - 1), Segment{}, Join{});
    return Join{}(found.before, lower);
  }
  __device__ __forceinline__ void keep(int k, int n, float x) {
    if (thread_index() == kThreads - 1) states_[at(k, n)] = x;
  }

 private:
  static constexpr int at(int k, int n) { return k * static_cast<int>(kMostStates) + n; }

  Scan scan_;
  SharedSpan<float> states_;
};

}  // namespace ws::selective_scan
#endif
