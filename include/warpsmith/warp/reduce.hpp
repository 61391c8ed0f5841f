// All-reduce among the lanes of a warp.
#pragma once

#include <bit>
#include <cstring>

#include "warpsmith/ptx/shuffle.hpp"

#if defined(WS_EMULATED) || defined(__CUDACC__)
namespace ws::warp {

// A value of any size from the lane whose number differs in `lane_mask`; one shuffle per 4 bytes.
template <class T>
__device__ __forceinline__ T exchange(T value, int lane_mask) {
  static_assert(sizeof(T) % 4 == 0 && std::is_trivially_copyable_v<T>);
  uint32_t words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof(T));
#pragma unroll
  for (uint32_t& word : words) word = ptx::shfl_sync_bfly(kFullMask, word, lane_mask);
  T other;
  std::memcpy(&other, words, sizeof(T));
  return other;
}

// combine over every kLanes lanes that follow each other (a power of two), given to each of them;
// all 32 lanes take part. `combine` is associative and commutative, so all lanes get the same bits.
template <int kLanes = kWarpSize, class T, class Combine>
__device__ __forceinline__ T all_reduce(T value, const Combine& combine) {
  static_assert(std::has_single_bit(static_cast<unsigned>(kLanes)) && kLanes <= kWarpSize);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = combine(value, exchange(value, distance));
  }
  return value;
}

}  // namespace ws::warp
#endif
