// Exclusive scan among the warps of a block.
#pragma once

#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::block {

// Of a value a warp, over the kThreads threads of a block; one object per thread, any number of
// calls. A call is a store, one barrier, and a scan by shuffles that each warp does for itself.
// Successive calls use two sets of slots in turn, so that a fast warp cannot overwrite what a slow
// one still reads.
template <class T, int kThreads>
class ScanOfWarps {
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kThreads % kWarpSize == 0 && std::has_single_bit(static_cast<unsigned>(kWarps)) &&
                    kWarps <= kWarpSize,
                "1, 2, 4, 8, 16 or 32 whole warps, so that one warp can read all of their totals");

 public:
  struct Storage {
    SharedArray<T, 2 * kWarps> totals;
  };
  struct Result {
    T before;  // of the warps below this one
    T total;   // of all
  };

  __device__ __forceinline__ explicit ScanOfWarps(Storage& storage) : storage_(storage) {}

  // Every thread of the block calls, each with its warp's value.
  template <class Combine>
  __device__ __forceinline__ Result operator()(const T& value, const T& none,
                                               const Combine& combine WS_AND_PLACE) {
    const int first = turn_ * kWarps;
    turn_ ^= 1;
    if (lane_index() == 0) storage_.totals[{first + warp_index() WS_PASS_AND_PLACE}] = value;
    ptx::barrier_sync(WS_PASS_PLACE);
    const T mine = storage_.totals[{first + lane_index() % kWarps WS_PASS_AND_PLACE}];
    const T scanned = warp::inclusive_scan<kWarps>(mine, combine WS_PASS_AND_PLACE);
    const int below = warp_index() == 0 ? 0 : warp_index() - 1;
    const T before = warp::shuffle<kWarps>(scanned, below, kFullMask WS_PASS_AND_PLACE);
    return {warp_index() == 0 ? none : before,
            warp::shuffle<kWarps>(scanned, kWarps - 1, kFullMask WS_PASS_AND_PLACE)};
  }

 private:
  Storage& storage_;
  int turn_ = 0;
};

}  // namespace ws::block
#endif
