// The two products of attention as mma.sync does them with keys and values of 8 bits, which lie in
// shared memory as they came and become f16 in registers: every e4m3 is an f16.
//
// ldmatrix moves elements of 16 bits, pairs of these. A lane (g, t) should have columns 2t, 2t + 1,
// 2t + 8 and 2t + 9 of key g, and gets 4t to 4t + 3: a sum does not care, if queries lie in that
// order too. Transposed, it should have keys 2t and 2t + 1 of column g, and gets columns 2g and
// 2g + 1 of both: one prmt sorts them into columns of two keys, and of 16 columns the even ones are
// one product, the odd ones another.
#pragma once

#include "kernels/attention/mma_products.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/convert_e4m3x2.hpp"

namespace ws::attention {

template <int kBlocks>
struct MmaProductsE4m3 : MmaProducts<half, kBlocks> {
  using InHalf = MmaProducts<half, kBlocks>;
  using typename InHalf::Left;

  // Eight columns of a query, from `column` on, a multiple of 8, where add_scores wants them.
  template <class Rows>
  __device__ __forceinline__ static void store(SharedSpan<half> to, int row, int column,
                                               const Vec<half, 8>& eight) {
    const int first = column / 16 * 16 + column % 16 / 2;
    to.template store<4>(Rows::Tile::offset(row, first),
                         Vec<half, 4>{eight[0], eight[1], eight[4], eight[5]});
    to.template store<4>(Rows::Tile::offset(row, first + 8),
                         Vec<half, 4>{eight[2], eight[3], eight[6], eight[7]});
  }

  // As those of MmaProducts.
  template <class Rows, int kDim, int kKeys, class LeftAt>
  __device__ __forceinline__ static void add_scores(MmaScores<kBlocks, kKeys>& scores,
                                                    LeftAt&& left_at, SharedSpan<e4m3> keys,
                                                    int offset) {
#pragma unroll
    for (int k = 0; k < kDim; k += 32) {
      uint32_t right[kKeys / 16][4];
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        ptx::ldmatrix_x4(right[n / 16], keys.pointer(Rows::further(offset, n, k)));
      }
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const auto& left = left_at(k + step * 16);
#pragma unroll
        for (int n = 0; n < kKeys; n += 16) {
          const uint32_t low = right[n / 16][step];
          const uint32_t high = right[n / 16][step + 2];
          const uint32_t wide[4] = {
              ptx::cvt_rn_f16x2_e4m3x2(low), ptx::cvt_rn_f16x2_e4m3x2(low >> 16),
              ptx::cvt_rn_f16x2_e4m3x2(high), ptx::cvt_rn_f16x2_e4m3x2(high >> 16)};
          InHalf::multiply_add(scores.at, n / 8, left, wide);
        }
      }
    }
  }

  // Of each 16 columns the first eight sums are those of the even ones.
  template <class Rows, int kKeys, int kAcross>
  __device__ __forceinline__ static void gather(float (&sums)[kBlocks][kAcross][4],
                                                const MmaScores<kBlocks, kKeys>& weights,
                                                SharedSpan<e4m3> values, int offset) {
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      Left left;
#pragma unroll
      for (int r = 0; r < kBlocks; ++r) weights.template operand<half>(left[r], r, k);
#pragma unroll
      for (int n = 0; n < kAcross * 8; n += 32) {
        uint32_t right[4];
        ptx::ldmatrix_x4<true>(right, values.pointer(Rows::further(offset, k, n)));
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          constexpr uint32_t kByColumn = 0x3120;
          const uint32_t low = ptx::permute_bytes(right[i * 2], 0, kByColumn);
          const uint32_t high = ptx::permute_bytes(right[i * 2 + 1], 0, kByColumn);
          const uint32_t wide[4] = {ptx::cvt_rn_f16x2_e4m3x2(low), ptx::cvt_rn_f16x2_e4m3x2(high),
                                    ptx::cvt_rn_f16x2_e4m3x2(low >> 16),
                                    ptx::cvt_rn_f16x2_e4m3x2(high >> 16)};
          InHalf::multiply_add(sums, n / 8 + i * 2, left, wide);
        }
      }
    }
  }
};

}  // namespace ws::attention
