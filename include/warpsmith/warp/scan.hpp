// Inclusive scan among the lanes of a warp.
#pragma once

#include <bit>

#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

// Each lane gets combine over the values of all lanes up to its own, of every kLanes lanes that
// follow each other (a power of two); all 32 lanes take part. The step with distance d adds what
// lies d lanes below (Hillis and Steele): combine(lower, own), which need not commute. The tree is
// the same in each call, and so are the bits.
template <int kLanes = kWarpSize, class T, class Combine>
__device__ __forceinline__ T inclusive_scan(T value, const Combine& combine WS_AND_PLACE) {
  static_assert(std::has_single_bit(static_cast<unsigned>(kLanes)) && kLanes <= kWarpSize);
  const int lane = lane_index() % kLanes;
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const T lower = shuffle_up<kLanes>(value, distance, kFullMask WS_PASS_AND_PLACE);
    if (lane >= distance) value = combine(lower, value);
  }
  return value;
}

// The same from the last lane down: each gets combine over the values of all lanes from the last to
// its own, in that order.
template <class T, class Combine>
__device__ __forceinline__ T inclusive_scan_back(T value, const Combine& combine WS_AND_PLACE) {
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const T upper = shuffle_down(value, distance, kFullMask WS_PASS_AND_PLACE);
    if (lane_index() + distance < kWarpSize) value = combine(upper, value);
  }
  return value;
}

// What the lanes below hold, from an inclusive scan; `none` in the first.
template <int kLanes = kWarpSize, class T>
__device__ __forceinline__ T shift_up(const T& inclusive, const T& none WS_AND_PLACE) {
  const T lower = shuffle_up<kLanes>(inclusive, 1, kFullMask WS_PASS_AND_PLACE);
  return lane_index() % kLanes == 0 ? none : lower;
}

// What the lanes above hold, from a scan back; `none` in the last.
template <class T>
__device__ __forceinline__ T shift_down(const T& inclusive, const T& none WS_AND_PLACE) {
  const T upper = shuffle_down(inclusive, 1, kFullMask WS_PASS_AND_PLACE);
  return lane_index() == kWarpSize - 1 ? none : upper;
}

}  // namespace ws::warp
#endif
