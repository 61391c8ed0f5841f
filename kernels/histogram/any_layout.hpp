// How many blocks of the rungs that take any layout walk on through the elements.
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

}  // namespace ws::histogram
