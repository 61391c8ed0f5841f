// All-reduce among the lanes of a warp.
#pragma once

#include <bit>

#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

// combine over every kLanes lanes that follow each other (a power of two), given to each of them;
// all 32 lanes take part. `combine` is associative and commutative, so all lanes get the same bits.
// A `combine` that knows a shorter way than to merge pairs has over_lanes<kLanes>(value).
template <int kLanes = kWarpSize, class T, class Combine>
__device__ __forceinline__ T all_reduce(T value, const Combine& combine WS_AND_PLACE) {
  static_assert(std::has_single_bit(static_cast<unsigned>(kLanes)) && kLanes <= kWarpSize);
  if constexpr (requires { combine.template over_lanes<kLanes>(value); }) {
    return combine.template over_lanes<kLanes>(value);
  } else {
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      value = combine(value, shuffle_xor(value, distance, kFullMask WS_PASS_AND_PLACE));
    }
    return value;
  }
}

}  // namespace ws::warp
#endif
