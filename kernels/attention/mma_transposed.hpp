// Both products of attention the other way round, for up to eight rows of queries: keys are the
// sixteen rows of mma.sync's left operand, queries its eight columns, where queries on the left
// would leave half of it empty. Scores are S^T = K Q^T, what is gathered O^T = V^T P^T: half of the
// products, of the exponentials and of the registers.
//
// A lane (g, t) has keys g and g + 8 of sixteen and queries 2t and 2t + 1. P^T as a right operand
// wants keys 2t, 2t + 1 of query g: movmatrix.
#pragma once

#include "kernels/attention/mma_products_e4m3.hpp"
#include "warpsmith/ptx/movmatrix.hpp"

namespace ws::attention {

// As MmaScores.
template <int kKeys>
struct TransposedScores {
  static constexpr int kRows = 2;

  __device__ __forceinline__ static int row(int i) { return lane_index() % 4 * 2 + i; }
  __device__ __forceinline__ static int first_key() { return lane_index() / 4; }
  // Whether the lane tells of its rows what all lanes that have them know.
  __device__ __forceinline__ static bool tells() { return lane_index() / 4 == 0; }

  template <class F>
  __device__ __forceinline__ void change(F&& f) {
#pragma unroll
    for (int key = 0; key < kKeys; key += 8) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float& score = at[key / 16][key % 16 / 8 * 2 + i];
        score = f(i, key, score);
      }
    }
  }
  __device__ __forceinline__ void cap(float softcap) {
    change([&](int, int, float score) { return capped(score, softcap); });
  }

  float at[kKeys / 16][4];
};

// As OnlineRows, lazily.
struct TransposedSoftmax {
  static constexpr int kRows = 2;
  static constexpr float kSlack = OnlineRows<1, true>::kSlack;

  float scale;
  float max[kRows] = {-thread::kInfinity, -thread::kInfinity};
  float sum[kRows] = {};  // of the keys of this lane

  __device__ __forceinline__ explicit TransposedSoftmax(float scale_log2) : scale(scale_log2) {}

  // Over the lanes that have a row's keys.
  template <class Combine>
  __device__ __forceinline__ static float over_keys(float value, const Combine& combine) {
#pragma unroll
    for (int distance = 4; distance < kWarpSize; distance *= 2) {
      value = combine(value, warp::shuffle_xor(value, distance));
    }
    return value;
  }
  __device__ __forceinline__ float sum_of(int i) const {
    return over_keys(sum[i], [](float a, float b) { return a + b; });
  }

  template <int kKeys>
  __device__ __forceinline__ bool weigh(TransposedScores<kKeys>& scores, float (&rescale)[kRows]) {
    // Whether a maximum moves, each lane asks its own keys: it seldom does.
    float high[kRows];
    bool mine = false;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      high[i] = max[i];
#pragma unroll
      for (int key = 0; key < kKeys; key += 8) {
        high[i] = fmaxf(high[i], scores.at[key / 16][key % 16 / 8 * 2 + i]);
      }
      mine |= (high[i] - max[i]) * scale > kSlack;
    }
    const bool moves = ptx::vote_sync_any(kFullMask, mine);
    if (moves) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        high[i] = over_keys(high[i], [](float a, float b) { return fmaxf(a, b); });
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
};

// Of keys and values of Kv, which is T or, where T is half, e4m3. T: what is multiplied.
template <class T, class Kv>
struct TransposedProducts {
  static constexpr bool kOf8Bits = sizeof(Kv) == 1;
  using Right = uint32_t[2];
  using Queries = Right;  // 16 columns
  template <int kDim>
  using Sums = float[kDim / 16][4];

  // Eight columns of a query of f16, as in MmaProductsE4m3.
  template <class Rows>
  __device__ __forceinline__ static void store(SharedSpan<half> to, int row, int column,
                                               const Vec<half, 8>& eight) {
    MmaProductsE4m3<1>::template store<Rows>(to, row, column, eight);
  }
  // All columns of the eight queries.
  template <class Rows, int kSteps>
  __device__ __forceinline__ static void load(Right (&to)[kSteps], SharedSpan<T> queries) {
    const int offset = Rows::Tile::offset(lane_index() % 8, lane_index() / 8 * 8);
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      uint32_t four[4];
      ptx::ldmatrix_x4(four, queries.pointer(Rows::further(offset, 0, k * 16)));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        to[k + i][0] = four[i * 2];
        to[k + i][1] = four[i * 2 + 1];
      }
    }
  }

  // What ldmatrix wants of the lane for keys, for values.
  template <class Tile>
  __device__ __forceinline__ static int keys_offset() {
    return Tile::template lane_offset<Tile::Order::kDown>(0);
  }
  template <class Tile>
  __device__ __forceinline__ static int values_offset() {
    return kOf8Bits ? Tile::template lane_offset<Tile::Order::kDown>(0)
                    : Tile::template lane_offset<Tile::Order::kAcross>(0);
  }

  template <class Tile, int kDim, int kKeys>
  __device__ __forceinline__ static void add_scores(TransposedScores<kKeys>& scores,
                                                    const Right (&queries)[kDim / 16],
                                                    SharedSpan<Kv> keys, int offset) {
    constexpr int kColumns = kOf8Bits ? 32 : 16;  // of an ldmatrix
#pragma unroll
    for (int k = 0; k < kDim; k += kColumns) {
#pragma unroll
      for (int key = 0; key < kKeys; key += 16) {
        uint32_t left[4];
        ptx::ldmatrix_x4(left, keys.pointer(Tile::further(offset, key, k)));
        if constexpr (kOf8Bits) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const uint32_t low = left[i * 2];
            const uint32_t high = left[i * 2 + 1];
            const uint32_t wide[4] = {ptx::cvt_rn_f16x2_e4m3x2(low), ptx::cvt_rn_f16x2_e4m3x2(high),
                                      ptx::cvt_rn_f16x2_e4m3x2(low >> 16),
                                      ptx::cvt_rn_f16x2_e4m3x2(high >> 16)};
            multiply_add(scores.at[key / 16], wide, queries[k / 16 + i]);
          }
        } else {
          multiply_add(scores.at[key / 16], left, queries[k / 16]);
        }
      }
    }
  }

  template <class Tile, int kKeys, int kBlocks>
  __device__ __forceinline__ static void gather(float (&sums)[kBlocks][4],
                                                const TransposedScores<kKeys>& weights,
                                                SharedSpan<Kv> values, int offset) {
#pragma unroll
    for (int key = 0; key < kKeys; key += 16) {
      const float (&of)[4] = weights.at[key / 16];
      const Right right = {ptx::movmatrix_trans(tile::pack<T>(of[0], of[1])),
                           ptx::movmatrix_trans(tile::pack<T>(of[2], of[3]))};
      constexpr int kColumns = kOf8Bits ? 32 : 16;
#pragma unroll
      for (int column = 0; column < kBlocks * 16; column += kColumns) {
        uint32_t left[4];
        ptx::ldmatrix_x4<true>(left, values.pointer(Tile::further(offset, key, column)));
        if constexpr (kOf8Bits) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {  // even columns of sixteen, then odd ones
            constexpr uint32_t kByColumn = 0x3120;
            const uint32_t low = ptx::permute_bytes(left[i * 2], 0, kByColumn);
            const uint32_t high = ptx::permute_bytes(left[i * 2 + 1], 0, kByColumn);
            const uint32_t wide[4] = {
                ptx::cvt_rn_f16x2_e4m3x2(low), ptx::cvt_rn_f16x2_e4m3x2(low >> 16),
                ptx::cvt_rn_f16x2_e4m3x2(high), ptx::cvt_rn_f16x2_e4m3x2(high >> 16)};
            multiply_add(sums[column / 16 + i], wide, right);
          }
        } else {
          multiply_add(sums[column / 16], left, right);
        }
      }
    }
  }

  template <int kBlocks>
  __device__ __forceinline__ static void scale(float (&sums)[kBlocks][4],
                                               const float (&factors)[2]) {
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] *= factors[i % 2];
    }
  }

 private:
  __device__ __forceinline__ static void multiply_add(float (&sum)[4], const uint32_t (&left)[4],
                                                      const Right& right) {
    ptx::mma_m16n8k16<T>(sum, left, right, sum);
  }
};

}  // namespace ws::attention
