// Idea: a thread computes 8 x 8 elements of C. What it has read of A and B, 16 numbers, then serves
//   64 multiply-adds: an outer product in registers.
// From sliced_k: 4 multiply-adds for every number read from shared memory, not one half; global
//   memory is read four elements an access.
// Traffic: M N K (1 / 128 + 1 / 128) elements from L2. Shared memory is read with bank conflicts: a
//   thread's 8 columns lie 32 bytes from its neighbour's, its 8 rows 256 bytes.
// Limits: f32 and f16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/plain.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::gemm {

template <class T>
struct RegisterTileKernel {
  static constexpr int kTile = 128;  // rows and columns of C
  static constexpr int kSlice = 8;   // of K
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {
    SharedArray<float, kTile * kSlice> a;
    SharedArray<float, kSlice * kTile> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto [first_row, first_column] = tile_place(g.n, kTile, kTile);
    // Of the tiles of A and B a thread loads four neighbours each.
    const int a_row = thread_index() / 2;
    const int a_k = thread_index() % 2 * 4;
    const int b_k = thread_index() / 32;
    const int b_column = thread_index() % 32 * 4;
    const int a_left = first_row + a_row < g.m ? g.k - a_k : 0;
    const int b_left = g.n - first_column - b_column;
    const T* const a = g.a + int64_t{first_row + a_row} * g.k + a_k;
    const T* const b = g.b + int64_t{b_k} * g.n + first_column + b_column;
    // 16 x 16 threads, 8 x 8 elements each.
    const int row = thread_index() / 16 * 8;
    const int column = thread_index() % 16 * 8;

    float sums[8][8] = {};
    for (int slice = 0; slice < g.k; slice += kSlice) {
      shared.a.template store<4>(a_row * kSlice + a_k,
                                 load_four(a + slice, a_left - slice, g.a_by_four));
      shared.b.template store<4>(
          b_k * kTile + b_column,
          load_four(b + int64_t{slice} * g.n, slice + b_k < g.k ? b_left : 0, g.b_by_four));
      ptx::barrier_sync();
#pragma unroll 2
      for (int p = 0; p < kSlice; ++p) {
        float down[8];
        float across[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) down[i] = shared.a[(row + i) * kSlice + p];
#pragma unroll
        for (int j = 0; j < 8; ++j) across[j] = shared.b[p * kTile + column + j];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) sums[i][j] += down[i] * across[j];
        }
      }
      ptx::barrier_sync();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (first_row + row + i >= g.m) break;
      T* const c = g.c + int64_t{first_row + row + i} * g.n + first_column + column;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        store_four(c + j, {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]},
                   g.n - first_column - column - j, g.c_by_four);
      }
    }
  }
};

struct RegisterTile {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kPlainTypes>(call.dtype, [&]<class T>() {
      using Kernel = RegisterTileKernel<T>;
      launch_tiles<Kernel, T>(call, Kernel::kTile, Kernel::kTile, context.stream);
    });
  }
};

inline constexpr Seed kRegisterTileSeeds[] = {
    {.name = "sgemm_t_8x8_sliced_k_f32x4", .dtypes = {DType::kF32}},
    {.name = "hgemm_t_8x8_sliced_k_f16x4", .dtypes = {DType::kF16}},
    {.name = "hgemm_t_8x8_sliced_k_f16x4_pack", .dtypes = {DType::kF16}},
};
inline constexpr Rung kRegisterTile = rung_of<RegisterTile, kPlainTypes, Gemm>({
    .name = "register_tile",
    .from = "sliced_k",
    .idea = "a thread computes 8 x 8: 64 products of 16 numbers read; four elements an access",
    .seeds = kRegisterTileSeeds,
});

}  // namespace ws::gemm
