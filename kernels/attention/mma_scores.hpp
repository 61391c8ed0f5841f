// A warp's scores as mma.sync leaves them in registers: 16 queries of a block of rows by 8 keys are
// four numbers of each lane. What may be done to them, and their softmax.
#pragma once

#include "kernels/attention/query_tiles.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/tile/warp_store.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::attention {

// softcap * tanh(score / softcap): tanh(x) = 1 - 2 / (1 + e^2x), off by 2^-23 of the cap.
__device__ __forceinline__ float capped(float score, float softcap) {
  const float part =
      thread::reciprocal(1.0F + thread::exp2(score * (2 * thread::kLog2E / softcap)));
  return thread::fma(-2 * softcap, part, softcap);
}

// kBlocks blocks of 16 queries, kKeys keys.
template <int kBlocks, int kKeys>
struct MmaScores {
  static constexpr int kRows = kBlocks * 2;  // of a lane

  // The i-th row of this lane, in the warp's rows.
  __device__ __forceinline__ static int row(int i) { return i * 8 + lane_index() / 4; }

  // The lane's first key. Others are numbers known when compiled further on: keep them apart, a sum
  // for each would cost a register.
  __device__ __forceinline__ static int first_key() { return lane_index() % 4 * 2; }
  // Whether the lane tells of its rows what all lanes that have them know.
  __device__ __forceinline__ static bool tells() { return lane_index() % 4 == 0; }

  __device__ __forceinline__ float& of(int i, int key) {
    return at[i / 2][key / 8][i % 2 * 2 + key % 2];
  }
  // score = f(i of the lane's rows, key after first_key(), score) for all.
  template <class F>
  __device__ __forceinline__ void change(F&& f) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kKeys / 4; ++j) {
        float& score = of(i, j / 2 * 8 + j % 2);
        score = f(i, j / 2 * 8 + j % 2, score);
      }
    }
  }

  // The same for 8 keys, those from `keys` on.
  template <class F>
  __device__ __forceinline__ void change(int keys, F&& f) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int key = keys; key < keys + 2; ++key) of(i, key) = f(i, key, of(i, key));
    }
  }

  __device__ __forceinline__ void cap(float softcap) {
    change([&](int, int, float score) { return capped(score, softcap); });
  }

  // Hides keys that a query does not see: what is there becomes `hidden`. The warp's rows begin at
  // first_row of the sequence, the keys at tile_key.
  __device__ __forceinline__ void hide(const Seen<int>& seen, int first_row, int tile_key,
                                       float hidden = -thread::kInfinity) {
    constexpr int kFar = 1 << 30;
    const int from = tile_key + first_key();
    const int over = first_row + row(0) + seen.offset - from;
    const int first = seen.left < 0 ? -kFar : over - seen.left;
    const int last = seen.right < 0 ? kFar : over + seen.right;
    const int end = seen.keys - from;
    change([&](int i, int key, float score) {
      const int under = key - i * 8;  // as seen from the first row
      return under >= first && under <= last && key < end ? score : hidden;
    });
  }

  // The keys from k on, 16 of them, as the left operand of a product, rounded to T.
  template <class T>
  __device__ __forceinline__ void operand(uint32_t (&a)[4], int block, int k) const {
    const float (&low)[4] = at[block][k / 8];
    const float (&high)[4] = at[block][k / 8 + 1];
    a[0] = tile::pack<T>(low[0], low[1]);
    a[1] = tile::pack<T>(low[2], low[3]);
    a[2] = tile::pack<T>(high[0], high[1]);
    a[3] = tile::pack<T>(high[2], high[3]);
  }

  float at[kBlocks][kKeys / 8][4];
};

// The softmax of scores that come tile by tile: e^x of a score s is 2^(s * scale). Lazily: as in
// OnlineSoftmax.
template <int kBlocks, bool kLazily>
struct OnlineRows {
  static constexpr int kRows = kBlocks * 2;
  static constexpr float kSlack = 8;  // powers of two

  float scale;
  float max[kRows];
  float sum[kRows];  // of the keys of this lane

  __device__ __forceinline__ explicit OnlineRows(float scale_log2) : scale(scale_log2) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      max[i] = -thread::kInfinity;
      sum[i] = 0;
    }
  }

  // Scores become weights; rescale[i] is what earlier sums are times. False: nothing.
  template <int kKeys>
  __device__ __forceinline__ bool weigh(MmaScores<kBlocks, kKeys>& scores,
                                        float (&rescale)[kRows]) {
    float high[kRows];
    bool mine = !kLazily;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      high[i] = max[i];
#pragma unroll
      for (int j = 0; j < kKeys / 4; ++j) {
        high[i] = fmaxf(high[i], scores.at[i / 2][j / 2][i % 2 * 2 + j % 2]);
      }
      high[i] = warp::all_reduce<4>(high[i], [](float a, float b) { return fmaxf(a, b); });
      mine |= (high[i] - max[i]) * scale > kSlack;
    }
    const bool moves = !kLazily || ptx::vote_sync_any(kFullMask, mine);
    if (moves) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        rescale[i] = thread::exp2((max[i] - thread::finite_or_zero(high[i])) * scale);
        sum[i] *= rescale[i];
        max[i] = high[i];
      }
    }
    float shift[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) shift[i] = thread::finite_or_zero(max[i]) * scale;
    scores.change([&](int i, int /*key*/, float score) {
      const float weight = thread::exp2(thread::fma(score, scale, -shift[i]));
      sum[i] += weight;
      return weight;
    });
    return moves;
  }

  // Of the i-th row's keys of all lanes.
  __device__ __forceinline__ float sum_of(int i) const {
    return warp::all_reduce<4>(sum[i], [](float a, float b) { return a + b; });
  }

  // What the i-th row's gathered values are times in the end, and its logarithm of the sum. `sink`
  // is a score in the units of e^x, -infinity where there is none.
  __device__ __forceinline__ void finish(int i, float sink, float& factor, float& lse) const {
    finish(max[i], sum_of(i), scale, sink, factor, lse);
  }
  // The same of a row whose sum over all keys is `total`.
  __device__ __forceinline__ static void finish(float max, float total, float scale, float sink,
                                                float& factor, float& lse) {
    const float high = max == -thread::kInfinity ? max : max * scale * thread::kLn2;
    const float most = fmaxf(high, sink);
    const float from = thread::finite_or_zero(most);
    const float mine = thread::fast_exp(high - from);
    const float all = total * mine + thread::fast_exp(sink - from);
    factor = all == 0 ? 0.0F : mine * thread::reciprocal(all);
    lse = all == 0 ? -thread::kInfinity : from + thread::log(all);
  }
};

}  // namespace ws::attention
