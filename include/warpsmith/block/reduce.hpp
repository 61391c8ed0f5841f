// All-reduce among the threads of a block.
#pragma once

#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::block {

// All-reduce of T over the kThreads threads of a block; one object per thread, any number of calls.
// A call is shuffles, one barrier, shuffles: successive calls use two sets of slots in turn, so a
// fast warp cannot overwrite what a slow one still reads, and no second barrier is needed.
template <class T, int kThreads>
class AllReduce {
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(
      kThreads % kWarpSize == 0 && std::has_single_bit(static_cast<unsigned>(kWarps)) &&
          kWarps <= kWarpSize,
      "1, 2, 4, 8, 16 or 32 whole warps, so that one warp can read all of their partials");

 public:
  struct Storage {
    SharedArray<T, 2 * kWarps> partials;
  };

  __device__ __forceinline__ explicit AllReduce(Storage& storage) : storage_(storage) {}

  // Every thread of the block calls; each gets the same bits.
  template <class Combine>
  __device__ __forceinline__ T operator()(T value, const Combine& combine WS_AND_PLACE) {
    return of_warps(warp::all_reduce(value, combine WS_PASS_AND_PLACE), combine WS_PASS_AND_PLACE);
  }

  // The same where the lanes of each warp already hold their warp's value.
  template <class Combine>
  __device__ __forceinline__ T of_warps(T value, const Combine& combine WS_AND_PLACE) {
    if constexpr (kWarps > 1) {
      const int first = turn_ * kWarps;
      turn_ ^= 1;
      if (lane_index() == 0) storage_.partials[{first + warp_index() WS_PASS_AND_PLACE}] = value;
      ptx::barrier_sync(WS_PASS_PLACE);
      const T partial = storage_.partials[{first + lane_index() % kWarps WS_PASS_AND_PLACE}];
      value = warp::all_reduce<kWarps>(partial, combine WS_PASS_AND_PLACE);
    }
    return value;
  }

 private:
  Storage& storage_;
  int turn_ = 0;
};

// The same of a block whose whole warps, up to kMostThreads / 32, are counted at launch; once a
// kernel. `none` changes nothing it is combined with.
template <class T, int kMostThreads>
class AllReduceOfLaunch {
  static constexpr int kMostWarps = kMostThreads / kWarpSize;
  static_assert(kMostThreads % kWarpSize == 0 && kMostWarps <= kWarpSize);

 public:
  struct Storage {
    SharedArray<T, kMostWarps> partials;
  };

  // Of values that the lanes of each warp already share; every thread gets the same bits.
  template <class Combine>
  __device__ __forceinline__ static T of_warps(Storage& storage, const T& value, const T& none,
                                               const Combine& combine WS_AND_PLACE) {
    const int warps = block_threads() / kWarpSize;
    if (lane_index() == 0) storage.partials[{warp_index() WS_PASS_AND_PLACE}] = value;
    ptx::barrier_sync(WS_PASS_PLACE);
    T partial = none;
    if (lane_index() < warps) partial = storage.partials[{lane_index() WS_PASS_AND_PLACE}];
    return warp::all_reduce(partial, combine WS_PASS_AND_PLACE);
  }
};

}  // namespace ws::block
#endif
