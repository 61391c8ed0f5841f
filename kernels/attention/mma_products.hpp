// The two products of attention as mma.sync does them: rows by rows, whose sums are scores, and
// scores by rows, for which they are the left operand where they lie.
#pragma once

#include "kernels/attention/mma_scores.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"

namespace ws::attention {

// Of a warp, which has kBlocks blocks of 16 rows; of rows in shared memory, each a RowTile.
template <class T, int kBlocks>
struct MmaProducts {
  static constexpr int kStep = 16;    // columns of a product
  using Left = uint32_t[kBlocks][4];  // 16 columns
  using Queries = Left;
  template <int kDim>
  using Sums = float[kBlocks][kDim / 8][4];

  // The warp's rows of a tile as a left operand, the columns from k on.
  template <class Rows>
  __device__ __forceinline__ static void load(Left& to, SharedSpan<T> rows, int offset, int k) {
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) {
      ptx::ldmatrix_x4(to[r], rows.pointer(Rows::further(offset, r * 16, k)));
    }
  }

  // What ldmatrix wants of the lane for keys, for values.
  template <class Rows>
  __device__ __forceinline__ static int keys_offset() {
    return Rows::template lane_offset<Rows::Order::kAcross>(0);
  }
  template <class Rows>
  __device__ __forceinline__ static int values_offset() {
    return Rows::template lane_offset<Rows::Order::kDown>(0);
  }

  // Adds the products of the warp's rows with kKeys of a tile. left(k) gives the former, of 16
  // columns from k on; `offset` is the latter's, across.
  template <class Rows, int kDim, int kKeys, class LeftAt>
  __device__ __forceinline__ static void add_scores(MmaScores<kBlocks, kKeys>& scores,
                                                    LeftAt&& left_at, SharedSpan<T> keys,
                                                    int offset) {
#pragma unroll
    for (int k = 0; k < kDim; k += 16) {
      const auto& left = left_at(k);
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        uint32_t right[4];
        ptx::ldmatrix_x4(right, keys.pointer(Rows::further(offset, n, k)));
        multiply_add(scores.at, n / 8, left, right);
      }
    }
  }

  // Adds the weights times kKeys rows of a tile, whose `offset` is down.
  template <class Rows, int kKeys, int kAcross>
  __device__ __forceinline__ static void gather(float (&sums)[kBlocks][kAcross][4],
                                                const MmaScores<kBlocks, kKeys>& weights,
                                                SharedSpan<T> values, int offset) {
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      Left left;
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) weights.template operand<T>(left[r], r, k);
#pragma unroll
      for (int n = 0; n < kAcross * 8; n += 16) {
        uint32_t right[4];
        ptx::ldmatrix_x4<true>(right, values.pointer(Rows::further(offset, k, n)));
        multiply_add(sums, n / 8, left, right);
      }
    }
  }

  // All sums, times a factor for each row of the lane.
  template <int kAcross>
  __device__ __forceinline__ static void scale(float (&sums)[kBlocks][kAcross][4],
                                               const float (&factors)[kBlocks * 2]) {
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
      for (int n = 0; n < kAcross; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[r][n][i] *= factors[r * 2 + i / 2];
      }
    }
  }

  // The i-th row of this lane's sums, times a factor, into a tile where the warp's rows begin at
  // `row` and its columns at `column`.
  template <class Rows, int kAcross>
  __device__ __forceinline__ static void stage(SharedSpan<T> to, int row, int i,
                                               const float (&sums)[kBlocks][kAcross][4],
                                               float factor, int column = 0) {
    using Place = MmaScores<kBlocks, 8>;
#pragma unroll
    for (int n = 0; n < kAcross; ++n) {
      const float (&four)[4] = sums[i / 2][n];
      to.template store<2>(
          Rows::Tile::offset(row + Place::row(i), column + n * 8 + Place::first_key()),
          Vec<T, 2>{from_float<T>(four[i % 2 * 2] * factor),
                    from_float<T>(four[i % 2 * 2 + 1] * factor)});
    }
  }

  // Two products of 16 x 8 for each block of rows, the columns from 8 * n on.
  template <int kAcross>
  __device__ __forceinline__ static void multiply_add(float (&sums)[kBlocks][kAcross][4], int n,
                                                      const Left& left,
                                                      const uint32_t (&right)[4]) {
    const uint32_t first[2] = {right[0], right[1]};
    const uint32_t second[2] = {right[2], right[3]};
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) {
      ptx::mma_m16n8k16<T>(sums[r][n], left[r], first, sums[r][n]);
      ptx::mma_m16n8k16<T>(sums[r][n + 1], left[r], second, sums[r][n + 1]);
    }
  }
};

}  // namespace ws::attention
