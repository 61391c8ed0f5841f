// Moments of all lanes: how warp::all_reduce, and with it the block's and the cluster's, merge
// them.
#pragma once

#include "warpsmith/thread/moments.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

struct MergeMoments {
  __device__ __forceinline__ thread::Moments operator()(const thread::Moments& a,
                                                        const thread::Moments& b) const {
    return thread::merge(a, b);
  }

  // Lanes that all hold some numbers, or none, need no merge of pairs with its division: the mean
  // is the sum of count * mean over the sum of counts, and each lane then knows how far its own
  // mean is from it. Three sums, one after the other two.
  template <int kLanes>
  __device__ __forceinline__ thread::Moments over_lanes(const thread::Moments& m) const {
    float count = m.count;
    float sum = m.count * m.mean;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      count += shuffle_xor(count, distance);
      sum += shuffle_xor(sum, distance);
    }
    const float mean = count > 0.0F ? sum * thread::reciprocal(count) : 0.0F;
    const float away = m.mean - mean;
    // Without numbers there is no distance; 0 * away would do but for an infinite mean.
    float squares = m.count > 0.0F ? thread::fma(m.count * away, away, m.squares) : 0.0F;
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      squares += shuffle_xor(squares, distance);
    }
    return {count, mean, squares, 0.0F};
  }
};

}  // namespace ws::warp
#endif
