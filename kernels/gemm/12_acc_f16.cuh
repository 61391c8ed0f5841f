// Idea: add up in f16. HFMA2 multiplies and adds two pairs at once: half the instructions of f32
//   and half the registers of the sums.
// From double_buffer: nothing is converted. A thread's columns are pairs of sums; B's pairs lie as
//   in memory, eight elements a load, and an element of A, which serves both of a pair, is stored
//   twice, in both halves of a word: to double it after each load would be an instruction for every
//   four or eight products.
// Traffic: as double_buffer; of shared memory half as much of B.
// Limits: every product is rounded to 11 bits of the sum so far: the error grows with the root of
//   K, 1 % at 4096, and a sum beyond 65504 is infinite. Never chosen, only asked for. f16; dense
//   row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/06_double_buffer.cuh"
#include "warpsmith/ptx/half.hpp"

namespace ws::gemm {

#if WS_DEVICE_CODE
// A block's tile of 128 x 16 kColumns of C, by 16 x 16 threads: eight rows by kColumns columns
// each, in groups of eight. A is stored transposed; neighbours load neighbouring 16 bytes of B.
template <int kColumns>
struct PairTile {
  using Element = uint32_t;  // in shared memory: two f16
  static constexpr int kThreads = 256;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 16 * kColumns;
  static constexpr int kStepA = kTileM;  // elements of a step of K in shared memory
  static constexpr int kStepB = kTileN / 2;

  __device__ __forceinline__ static int row(int i) { return thread_index() / 16 * 8 + i; }
  __device__ __forceinline__ static int column(int j) {
    return j / 8 * 128 + thread_index() % 16 * 8 + j % 8;
  }

  __device__ __forceinline__ static void store_a(SharedSpan<uint32_t> a, int row, int k,
                                                 const Vec<half, 8>& piece WS_AND_PLACE) {
#pragma unroll
    for (int p = 0; p < 8; ++p) {
      const Vec<uint32_t, 1> twice = {uint32_t{piece[p].bits} * 0x10001};
      a.template store<1>((k + p) * kStepA + row, twice WS_PASS_AND_PLACE);
    }
  }
  __device__ __forceinline__ static void store_b(SharedSpan<uint32_t> b, int k, int column,
                                                 const Vec<half, 8>& piece WS_AND_PLACE) {
    b.template store<4>(k * kStepB + column / 2,
                        std::bit_cast<Vec<uint32_t, 4>>(piece) WS_PASS_AND_PLACE);
  }

  // Adds the products of kSlice steps of K.
  template <int kSlice>
  __device__ __forceinline__ void multiply_add(SharedSpan<uint32_t> a, SharedSpan<uint32_t> b) {
#pragma unroll(kSlice < 16 ? kSlice : 16)
    for (int p = 0; p < kSlice; ++p) {
      Vec<uint32_t, 4> down[2];
      Vec<uint32_t, 4> across[kColumns / 8];
#pragma unroll
      for (int i = 0; i < 8; i += 4) down[i / 4] = a.template load<4>(p * kStepA + row(i));
#pragma unroll
      for (int j = 0; j < kColumns; j += 8) {
        across[j / 8] = b.template load<4>(p * kStepB + column(j) / 2);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns / 2; ++j) {
          sums[i][j] = ptx::fma_rn_f16x2(down[i / 4][i % 4], across[j / 4][j % 4], sums[i][j]);
        }
      }
    }
  }

  // Writes the tile of C whose first element is at (first_row, first_column).
  __device__ __forceinline__ void write(const PlainArguments<half>& g, int first_row,
                                        int first_column) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first_row + row(i) >= g.m) continue;
      half* const c = g.c + int64_t{first_row + row(i)} * g.n + first_column;
#pragma unroll
      for (int j = 0; j < kColumns; j += 8) {
        const Vec<uint32_t, 4> pairs = {sums[i][j / 2], sums[i][j / 2 + 1], sums[i][j / 2 + 2],
                                        sums[i][j / 2 + 3]};
        store_piece(c + column(j), std::bit_cast<Vec<half, 8>>(pairs),
                    g.n - first_column - column(j), g.c_aligned);
      }
    }
  }

  uint32_t sums[8][kColumns / 2] = {};  // pairs of neighbouring columns, the left in the low half
};
#endif

struct AccF16 {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_octet_policy(call, device_facts().multiprocessors, [&]<class Policy>() {
      DoubleBufferKernel<half, Policy, PairTile<Policy::kColumns>>::run(call, context.stream);
    });
  }
};

inline constexpr Rung kAccF16 = rung_of<AccF16, DTypes{DType::kF16}, Gemm>({
    .name = "acc_f16",
    .from = "double_buffer",
    .idea = "HFMA2: two multiply-adds an instruction",
    .accumulate = DType::kF16,
});

}  // namespace ws::gemm
