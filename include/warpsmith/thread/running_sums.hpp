// Counts in memory, made sums of those before them, by threads side by side.
#pragma once

#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// Of the threads that take a turn together: what those before a thread have, and all of them.
struct SumsOfTurn {
  uint32_t before;
  uint32_t total;
};

// counts[i] becomes the sum of counts[0] to counts[i - 1]; gives the sum of all. All of the threads
// call; `thread` is which of them this one is, and sums(its own sum) adds up those of a turn.
template <int kThreads, class Sums>
__device__ __forceinline__ uint32_t running_sums(uint32_t* counts, int64_t count, int thread,
                                                 Sums&& sums) {
  constexpr int kCounts = 4;  // of a thread in a turn: so many loads are on their way at once
  uint32_t before = 0;
  for (int64_t first = 0; first < count; first += kThreads * kCounts) {
    const int64_t mine = first + thread * kCounts;
    uint32_t given[kCounts];
    uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < kCounts; ++j) {
      given[j] = mine + j < count ? load(counts + mine + j) : 0;
      sum += given[j];
    }
    const SumsOfTurn turn = sums(sum);
    uint32_t next = before + turn.before;
#pragma unroll
    for (int j = 0; j < kCounts; ++j) {
      if (mine + j < count) store(counts + mine + j, next);
      next += given[j];
    }
    before += turn.total;
  }
  return before;
}

}  // namespace ws::thread
#endif
