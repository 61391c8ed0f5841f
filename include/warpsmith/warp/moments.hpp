// Moments of all lanes: how warp::all_reduce, and with it the block's and the cluster's, merge
// them.
#pragma once

#include "warpsmith/thread/moments.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

// The moments of kLanes lanes, of which the first holds numbers where any does, as one; `count` is
// of all of them. Lanes need no merge of pairs with its division: all measure how far their means
// are from the first lane's, and two sums, side by side, are enough. A mean among so few that is
// far from the others costs a few bits at most.
template <int kLanes>
__device__ __forceinline__ thread::Moments merge_lanes(const thread::Moments& m, float count) {
  const float pivot = shuffle<kLanes>(m.mean, 0);
  const float away = m.count > 0.0F ? m.mean - pivot : 0.0F;
  float sum = m.count * away;
  float squares = thread::fma(sum, away, m.squares);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    sum += shuffle_xor(sum, distance);
    squares += shuffle_xor(squares, distance);
  }
  const float mean = count > 0.0F ? sum * thread::reciprocal(count) : 0.0F;
  return {count, pivot + mean, thread::without_rounding_below_zero(squares - sum * mean), 0.0F};
}

struct MergeMoments {
  __device__ __forceinline__ thread::Moments operator()(const thread::Moments& a,
                                                        const thread::Moments& b) const {
    return thread::merge(a, b);
  }
  template <int kLanes>
  __device__ __forceinline__ thread::Moments over_lanes(const thread::Moments& m) const {
    float count = m.count;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      count += shuffle_xor(count, distance);
    }
    return merge_lanes<kLanes>(m, count);
  }
};

// The same where it is known how many numbers all of the merged hold.
struct MergeMomentsOf : MergeMoments {
  float count;
  __device__ __forceinline__ explicit MergeMomentsOf(float of_all) : count(of_all) {}
  template <int kLanes>
  __device__ __forceinline__ thread::Moments over_lanes(const thread::Moments& m) const {
    return merge_lanes<kLanes>(m, count);
  }
};

}  // namespace ws::warp
#endif
