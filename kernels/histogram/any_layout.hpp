// What the rungs that take any layout have in common: how many blocks walk on through the elements,
// and edges that are looked at before anything is counted.
#pragma once

#include <algorithm>

#include "kernels/histogram/binning.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::histogram {

// A few blocks an SM.
inline int64_t walking_blocks(int64_t count, int threads) {
  const int64_t places = int64_t{8} * device_facts().multiprocessors;
  return std::clamp<int64_t>(divide_up(count, int64_t{threads}), 1, places);
}

#if WS_DEVICE_CODE
// Whether no edge falls, said to all threads of a block alike; true where a binner has none.
template <class Binner>
__device__ __forceinline__ bool has_right_edges(const Binner& binner,
                                                SharedArray<uint32_t, 1>& wrong, int threads) {
  if constexpr (Binner::kHasTable) {
    if (thread_index() == 0) wrong[0] = 0;
    ptx::barrier_sync();
    if (!binner.are_right(threads)) ptx::red_shared_increment(wrong.pointer());
    ptx::barrier_sync();
    return wrong[0] == 0;
  }
  return true;
}
#endif

}  // namespace ws::histogram
