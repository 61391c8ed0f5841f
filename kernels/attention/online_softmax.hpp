// The softmax of scores that come a block at a time, in the registers of wgmma's accumulators: a
// thread has two rows, and four threads together have all of a row's scores.
//
// Milakov and Gimelshein, arXiv:1805.02867; Dao, FlashAttention-2, arXiv:2307.08691.
#pragma once

#include <cmath>

#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/tile/warp_store.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

// Which of a block's keys a row of scores may see: from `first` on, before `last`; both relative to
// the thread's first column.
struct SeenColumns {
  int first;
  int last;
};

// T: what weights are rounded to before they are multiplied. Lazily: the maximum stays until a
// score is more than kSlack powers of two above it, for which what was gathered would have to be
// scaled.
template <class T, bool kLazily>
struct OnlineSoftmax {
  // Weights are 2^((score - max) * scale_log2 + kRaised).
  //
  // f16 has weights up to 65504. e4m3 has them up to 448, and from 2^-6 on with all of its digits;
  // a thread's 32 columns that weigh alike stay below 448.
  static constexpr bool kOf8Bits = sizeof(T) == 1;
  static constexpr float kSlack = kOf8Bits ? 1 : 8;
  static constexpr float kRaised = kOf8Bits ? 3 : 0;
  static constexpr float kMostSum = kOf8Bits ? 448 : 16384;

  float scale_log2;
  float max[2] = {-thread::kInfinity, -thread::kInfinity};
  float sum[2] = {};  // of this thread's columns

  template <int kScores>
  __device__ __forceinline__ static void hide(float (&scores)[kScores],
                                              const SeenColumns (&seen)[2],
                                              float hidden = -thread::kInfinity) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int column = i / 4 * 8 + i % 2;
      const SeenColumns& of_row = seen[i / 2 % 2];
      const bool is_seen = column >= of_row.first && column < of_row.last;
      scores[i] = is_seen ? scores[i] : hidden;
    }
  }

  // Makes weights of scores; `rescale` is what times all that was gathered before. False: nothing.
  template <int kScores>
  __device__ __forceinline__ bool weigh(float (&scores)[kScores], float (&rescale)[2]) {
    const auto higher = [](float a, float b) { return fmaxf(a, b); };
    float highest[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      highest[row] = fmaxf(scores[row * 2], scores[row * 2 + 1]);
#pragma unroll
      for (int i = row * 2 + 4; i < kScores; i += 4) {
        highest[row] = fmaxf(highest[row], fmaxf(scores[i], scores[i + 1]));
      }
      highest[row] = fmaxf(max[row], warp::all_reduce<4>(highest[row], higher));
    }
    bool moves = true;
    if constexpr (kLazily) {
      // Of a row that has seen nothing infinity, or, if there is still nothing, NaN.
      const bool mine = (highest[0] - max[0]) * scale_log2 > kSlack ||
                        (highest[1] - max[1]) * scale_log2 > kSlack;
      moves = ptx::vote_sync_any(kFullMask, mine);
    }
    if (moves) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float shift = thread::finite_or_zero(highest[row]);
        rescale[row] = thread::exp2((max[row] - shift) * scale_log2);
        sum[row] *= rescale[row];
        max[row] = highest[row];
      }
    }
    float added[2];
    raise(scores, added);
#pragma unroll
    for (int row = 0; row < 2; ++row) sum[row] += added[row];
    return moves;
  }

  // Makes weights of scores by the maximum of those before, which spares finding theirs: weights
  // are as precise at any size. False, and nothing is added, where a lane's sum is too large for
  // them, or there is no maximum yet.
  template <int kScores>
  __device__ __forceinline__ bool weigh_as_before(float (&scores)[kScores]) {
    float added[2];
    raise(scores, added);
    const bool fits = added[0] < kMostSum && added[1] < kMostSum && max[0] > -thread::kInfinity &&
                      max[1] > -thread::kInfinity;
    if (!ptx::vote_sync_all(kFullMask, fits)) return false;
#pragma unroll
    for (int row = 0; row < 2; ++row) sum[row] += added[row];
    return true;
  }

 private:
  template <int kScores>
  __device__ __forceinline__ void raise(float (&scores)[kScores], float (&added)[2]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float shift = thread::finite_or_zero(max[row]) * scale_log2 - kRaised;
      added[row] = 0;
#pragma unroll
      for (int i = row * 2; i < kScores; i += 4) {
#pragma unroll
        for (int j = i; j < i + 2; ++j) {
          scores[j] = thread::exp2(thread::fma(scores[j], scale_log2, -shift));
          added[row] += scores[j];
        }
      }
    }
  }

 public:
  // After the last block: 1 / sum of row 0 or 1, of nothing 0; and the logarithm of its sum.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (float& part : sum) {
      part = warp::all_reduce<4>(part, [](float a, float b) { return a + b; });
    }
  }
  __device__ __forceinline__ float share(int row) const {
    return sum[row] > 0 ? 1 / sum[row] : 0.0F;
  }
  __device__ __forceinline__ float log_sum(int row) const {
    if (!(sum[row] > 0)) return sum[row] == 0 ? -thread::kInfinity : sum[row];  // or NaN
    return (max[row] * scale_log2 + thread::fast_log2(sum[row]) - kRaised) * thread::kLn2;
  }
};

// Both rows of what was gathered, times their factors.
template <int kSums>
__device__ __forceinline__ void scale_rows(float (&gathered)[kSums], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) gathered[i] *= factor[i / 2 % 2];
}

// Weights as wgmma's A operand: the same thread has them, rounded. Of 16 bits two to a register, of
// columns side by side. Of 8 bits four: those that A has in a row are a thread's of 16 keys, which
// stand 0, 1, 8, 9 columns from its first; ValueTranspose puts the keys of the values in this
// order.
template <class T, int kScores>
__device__ __forceinline__ void pack_weights(const float (&weights)[kScores],
                                             uint32_t (&packed)[kScores * sizeof(T) / 4]) {
  static_assert(sizeof(T) == 2 || std::is_same_v<T, e4m3>);
  if constexpr (sizeof(T) == 2) {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      packed[i] = tile::pack<T>(weights[i * 2], weights[i * 2 + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kScores / 4; ++i) {
      const float* of = weights + i / 2 * 8 + i % 2 * 2;  // 16 keys, a row of two
      packed[i] = ptx::cvt_rn_satfinite_e4m3x4_f32({of[0], of[1], of[4], of[5]});
    }
  }
}

}  // namespace ws::attention
#endif
