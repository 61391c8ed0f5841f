// Sorts of a thread's few unsigned integers, in registers: bitonic networks whose every comparison
// is a minimum and a maximum.
#pragma once

#include "warpsmith/thread/tile.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

namespace detail {

// Compares pairs at a distance; in which direction is known while compiling, once unrolled.
template <class Key, int N, class Descends>
__device__ __forceinline__ void exchange(Tile<Key, N>& keys, int distance,
                                         const Descends& descends) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if ((j & distance) != 0) continue;
    const Key a = keys[j];
    const Key b = keys[j + distance];
    const Key larger = a < b ? b : a;
    const Key smaller = a < b ? a : b;
    keys[j] = descends(j) ? larger : smaller;
    keys[j + distance] = descends(j) ? smaller : larger;
  }
}

}  // namespace detail

// Largest first. N is a power of two.
template <class Key, int N>
__device__ __forceinline__ void sort_descending(Tile<Key, N>& keys) {
  static_assert((N & (N - 1)) == 0);
#pragma unroll
  for (int size = 2; size <= N; size *= 2) {
#pragma unroll
    for (int distance = size / 2; distance > 0; distance /= 2) {
      detail::exchange(keys, distance, [&](int j) { return (j & size) == 0; });
    }
  }
}

// The N largest of two sorted tiles, sorted: what is larger of one's first and the other's last,
// and so on, is all of them.
template <class Key, int N>
__device__ __forceinline__ Tile<Key, N> largest_of(const Tile<Key, N>& a, const Tile<Key, N>& b) {
  static_assert((N & (N - 1)) == 0);
  Tile<Key, N> best;
#pragma unroll
  for (int j = 0; j < N; ++j) best[j] = a[j] < b[N - 1 - j] ? b[N - 1 - j] : a[j];
#pragma unroll
  for (int distance = N / 2; distance > 0; distance /= 2) {
    detail::exchange(best, distance, [](int /*j*/) { return true; });
  }
  return best;
}

}  // namespace ws::thread
#endif
