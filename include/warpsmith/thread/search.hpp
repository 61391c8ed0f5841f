// Searches in sorted memory, by halves.
#pragma once

#include "warpsmith/device.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// How many of `count` keys in global memory, the largest first, are larger than `key`.
template <class T>
__device__ __forceinline__ int64_t count_larger(const T* keys, int64_t count, T key) {
  int64_t low = 0;
  int64_t high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (load(keys + middle) > key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace ws::thread
#endif
