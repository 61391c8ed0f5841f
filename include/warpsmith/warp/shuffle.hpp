// Shuffles of any trivially copyable type, a 32-bit word at a time. All lanes of `mask` call them
// together; kWidth and the emulator's faults are those of ptx/shuffle.hpp.
#pragma once

#include <cstring>
#include <type_traits>

#include "warpsmith/ptx/shuffle.hpp"

namespace ws::warp {

namespace detail {

template <class T, class Exchange>
__device__ __forceinline__ T by_words(const T& value, Exchange exchange) {
  static_assert(std::is_trivially_copyable_v<T>);
  constexpr int kWords = (sizeof(T) + 3) / 4;
  uint32_t words[kWords] = {};
  memcpy(words, &value, sizeof(T));
#ifdef WS_EMULATED
  exchange(ptx::detail::Words<kWords>{words});  // in one meeting
#else
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = exchange(words[i]);
#endif
  T result;
  memcpy(&result, words, sizeof(T));
  return result;
}

}  // namespace detail

// The value of lane `source` of the caller's segment.
template <int kWidth = 32, class T>
__device__ __forceinline__ T shuffle(const T& value, int source,
                                     uint32_t mask = kFullMask WS_AND_PLACE) {
  return detail::by_words(value, [=](auto word) {
    return ptx::shfl_sync_idx<kWidth>(mask, word, source WS_PASS_AND_PLACE);
  });
}

// The value of the lane `delta` below; the lane's own at the start of a segment.
template <int kWidth = 32, class T>
__device__ __forceinline__ T shuffle_up(const T& value, int delta,
                                        uint32_t mask = kFullMask WS_AND_PLACE) {
  return detail::by_words(value, [=](auto word) {
    return ptx::shfl_sync_up<kWidth>(mask, word, delta WS_PASS_AND_PLACE);
  });
}

// The value of the lane `delta` above; the lane's own at the end of a segment.
template <int kWidth = 32, class T>
__device__ __forceinline__ T shuffle_down(const T& value, int delta,
                                          uint32_t mask = kFullMask WS_AND_PLACE) {
  return detail::by_words(value, [=](auto word) {
    return ptx::shfl_sync_down<kWidth>(mask, word, delta WS_PASS_AND_PLACE);
  });
}

// The value of the lane whose index differs in the bits of `lane_mask`.
template <int kWidth = 32, class T>
__device__ __forceinline__ T shuffle_xor(const T& value, int lane_mask,
                                         uint32_t mask = kFullMask WS_AND_PLACE) {
  return detail::by_words(value, [=](auto word) {
    return ptx::shfl_sync_bfly<kWidth>(mask, word, lane_mask WS_PASS_AND_PLACE);
  });
}

}  // namespace ws::warp
