// Moments of all lanes: how warp::all_reduce, and with it the block's and the cluster's, merge
// them.
#pragma once

#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/moments.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

// The moments of kLanes lanes, of which lane `holder` holds numbers where any does, as one; `count`
// is of all of them. Lanes need no merge of pairs with its division: all measure how far their
// means are from that lane's, and two sums, side by side, are enough. A mean among so few that is
// far from the others costs a few bits at most.
template <int kLanes>
__device__ __forceinline__ thread::Moments merge_lanes(const thread::Moments& m, float count,
                                                       int holder = 0) {
  const float pivot = shuffle<kLanes>(m.mean, holder);
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

template <int kLanes>
__device__ __forceinline__ float count_of_lanes(const thread::Moments& m) {
  float count = m.count;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    count += shuffle_xor(count, distance);
  }
  return count;
}

struct MergeMoments {
  __device__ __forceinline__ thread::Moments operator()(const thread::Moments& a,
                                                        const thread::Moments& b) const {
    return thread::merge(a, b);
  }
  template <int kLanes>
  __device__ __forceinline__ thread::Moments over_lanes(const thread::Moments& m) const {
    return merge_lanes<kLanes>(m, count_of_lanes<kLanes>(m));
  }
};

// The same where any lanes may hold nothing, the first too.
struct MergeMomentsOfSome : MergeMoments {
  template <int kLanes>
  __device__ __forceinline__ thread::Moments over_lanes(const thread::Moments& m) const {
    const uint32_t holders = ptx::vote_sync_ballot(kFullMask, m.count > 0.0F);
    const uint32_t mine = holders >> (lane_index() & ~(kLanes - 1)) & (kFullMask >> (32 - kLanes));
    const int holder = mine == 0 ? 0 : ptx::lowest_bit(mine);
    return merge_lanes<kLanes>(m, count_of_lanes<kLanes>(m), holder);
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
