// The two products of attention as mma.sync does them in f32: each is three products of TF32, of
// what it sees of both numbers and of what it leaves of either.
//
// ldmatrix moves 16 bytes of a row to four lanes: four elements of 32 bits, a lane each, which is
// how the products take queries and keys. Weights lie in pairs of neighbouring keys, where keys t
// and t + 4 of eight are wanted: a sum does not care, if values come in that order too. Columns
// may come in any order as well, so a lane reads four at once, 4 g to 4 g + 3 of 32, and gives one
// to each of four products; of its sums four lie side by side again.
#pragma once

#include "kernels/attention/mma_products.hpp"
#include "warpsmith/thread/tf32.hpp"

namespace ws::attention {

// As MmaProducts. Of numbers that are infinite, or round to that, all sums are NaN; kCareful: they
// are what they should be, by five times the instructions that take numbers apart.
template <int kBlocks, bool kCareful = false>
struct MmaProductsTf32 : MmaProducts<float, kBlocks> {
  static constexpr int kStep = 8;  // columns of a product
  using typename MmaProducts<float, kBlocks>::Left;
  using Careful = MmaProductsTf32<kBlocks, true>;

  // Two keys of each lane, in whose rows it has four columns: the other is one row further on.
  template <class Rows>
  __device__ __forceinline__ static int values_offset() {
    return Rows::Tile::offset(lane_index() % 4 * 2, lane_index() / 4 * kWidth);
  }

  template <class Rows, int kDim, int kKeys, class LeftAt>
  __device__ __forceinline__ static void add_scores(MmaScores<kBlocks, kKeys>& scores,
                                                    LeftAt&& left_at, SharedSpan<float> keys,
                                                    int offset) {
#pragma unroll
    for (int from = 0; from < kDim; from += kTogether) {
      float sums[kBlocks][kKeys / 8][4] = {};
#pragma unroll
      for (int k = from; k < from + kTogether; k += kStep) {
        const Left& whole = left_at(k);
        Parts<Left> left;
#pragma unroll
        for (int r = 0; r < kBlocks; ++r) split(left.high[r], left.low[r], whole[r]);
#pragma unroll
        for (int n = 0; n < kKeys; n += 16) {
          uint32_t four[4];
          ptx::ldmatrix_x4(four, keys.pointer(Rows::further(offset, n, k)));
          const uint32_t right[2][2] = {{four[0], four[1]}, {four[2], four[3]}};
          multiply_add(sums, n / 8, left, right);
        }
      }
      add(scores.at, 0, sums);
    }
  }

  template <class Rows, int kKeys, int kAcross>
  __device__ __forceinline__ static void gather(float (&gathered)[kBlocks][kAcross][4],
                                                const MmaScores<kBlocks, kKeys>& weights,
                                                SharedSpan<float> values, int offset) {
    Parts<Left> left[kKeys / kStep];
#pragma unroll
    for (int k = 0; k < kKeys / kStep; ++k) {
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) {
        const float (&four)[4] = weights.at[r][k];
        const uint32_t whole[4] = {
            std::bit_cast<uint32_t>(four[0]), std::bit_cast<uint32_t>(four[2]),
            std::bit_cast<uint32_t>(four[1]), std::bit_cast<uint32_t>(four[3])};
        split(left[k].high[r], left[k].low[r], whole);
      }
    }
    const int next = Rows::Tile::further(offset, kWidth) + Rows::Tile::kPitch;
#pragma unroll
    for (int n = 0; n < kAcross; n += kWidth) {
      float sums[kBlocks][kWidth][4] = {};
#pragma unroll
      for (int k = 0; k < kKeys / kStep; ++k) {
        const auto even = values.template load<kWidth>(Rows::further(offset, k * kStep, n * 8));
        const auto odd = values.template load<kWidth>(Rows::further(next, k * kStep, n * 8));
        uint32_t right[kWidth][2];
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          right[e][0] = std::bit_cast<uint32_t>(even[e]);
          right[e][1] = std::bit_cast<uint32_t>(odd[e]);
        }
        multiply_add(sums, 0, left[k], right);
      }
      add(gathered, n, sums);
    }
  }

  template <class Rows, int kAcross>
  __device__ __forceinline__ static void stage(SharedSpan<float> to, int row, int i,
                                               const float (&sums)[kBlocks][kAcross][4],
                                               float factor) {
    const int in_tile = row + MmaScores<kBlocks, 8>::row(i);
#pragma unroll
    for (int n = 0; n < kAcross; n += kWidth) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Vec<float, kWidth> four;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) four[e] = sums[i / 2][n + e][i % 2 * 2 + half] * factor;
        to.template store<kWidth>(
            Rows::Tile::offset(in_tile, n * 8 + lane_index() % 4 * 8 + half * kWidth), four);
      }
    }
  }

 private:
  static constexpr int kWidth = 4;  // of 16 bytes

  // Tensor cores cut what they add: longer sums are added up outside.
  static constexpr int kTogether = 64;

  // What TF32 has of numbers, and what it leaves.
  template <class Numbers>
  struct Parts {
    Numbers high, low;
  };
  template <int kCount>
  __device__ __forceinline__ static void split(uint32_t (&high)[kCount], uint32_t (&low)[kCount],
                                               const uint32_t (&whole)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const auto x = std::bit_cast<float>(whole[i]);
      float left = 0;
      if constexpr (kCareful) {
        high[i] = whole[i];
        left = thread::low_part(x);
      } else {
        high[i] = std::bit_cast<uint32_t>(thread::rounded_to_tf32(x, left));
      }
      low[i] = std::bit_cast<uint32_t>(left);
    }
  }

  // Of kCount times 8 columns, from the n-th of the sums on. The least products first: a sum is cut
  // by as much as its size says. None waits for the one before.
  template <int kAcross, int kCount>
  __device__ __forceinline__ static void multiply_add(float (&sums)[kBlocks][kAcross][4], int n,
                                                      const Parts<Left>& left,
                                                      const uint32_t (&whole)[kCount][2]) {
    const auto multiply = [&](const Left& a, int c, const uint32_t (&b)[2]) {
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) ptx::mma_m16n8k8(sums[r][n + c], a[r], b, sums[r][n + c]);
    };
    Parts<uint32_t[kCount][2]> right;
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      split(right.high[c], right.low[c], whole[c]);
      multiply(left.low, c, right.high[c]);
    }
#pragma unroll
    for (int c = 0; c < kCount; ++c) multiply(left.high, c, right.low[c]);
#pragma unroll
    for (int c = 0; c < kCount; ++c) multiply(left.high, c, right.high[c]);
  }

  template <int kAcross, int kMore>
  __device__ __forceinline__ static void add(float (&to)[kBlocks][kAcross][4], int n,
                                             const float (&sums)[kBlocks][kMore][4]) {
#pragma unroll
    for (int r = 0; r < kBlocks; ++r) {
#pragma unroll
      for (int m = 0; m < kMore; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[r][n + m][i] += sums[r][m][i];
      }
    }
  }
};

// As kernels take products: of f32 alone.
template <class /*float*/, int kBlocks>
using ProductsTf32 = MmaProductsTf32<kBlocks>;

}  // namespace ws::attention
