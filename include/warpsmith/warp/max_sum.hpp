// Maxima and sums of all lanes: how warp::all_reduce, and with it the block's and the cluster's,
// merge them.
#pragma once

#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

struct MergeMaxSum {
  // The maximum first, for one exponential in all; pairs would take one each.
  template <int kLanes>
  __device__ __forceinline__ thread::MaxSum over_lanes(const thread::MaxSum& mine) const {
    const float max = all_reduce<kLanes>(mine.max, [](float a, float b) { return ::fmaxf(a, b); });
    const float moved = mine.sum * thread::fast_exp(mine.max - thread::finite_or_zero(max));
    return {max, all_reduce<kLanes>(moved, [](float a, float b) { return a + b; })};
  }
};

}  // namespace ws::warp
#endif
