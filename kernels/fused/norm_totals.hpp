// What a row that is held in registers is reduced to, in one reduction of pairs.
#pragma once

#include "warpsmith/thread/math.hpp"

#if WS_DEVICE_CODE
namespace ws::fused {

// The sum of squares of a row, and the largest magnitude of what is quantised but for rstd.
struct SumAndMost {
  float sum;
  float most;
};
struct Both {
  __device__ __forceinline__ SumAndMost operator()(SumAndMost p, SumAndMost q) const {
    return {p.sum + q.sum, thread::max(p.most, q.most)};
  }
};

}  // namespace ws::fused
#endif
