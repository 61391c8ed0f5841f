// Idea: lay shared memory out for those who read it. A is stored transposed, so that both operands
//   of a step of K are rows, read by 16 bytes; a thread's 8 rows and columns are two groups of
//   four, 64 apart, so that neighbours read neighbouring 16 bytes.
// From register_tile: no bank conflict, and two loads of A for a step of K where it took eight
//   narrower. Rows are padded by 16 bytes: the transposing stores then touch each bank once.
// Traffic: as register_tile.
// Limits: f32 and f16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/quad_tile.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::gemm {

template <class T>
struct ConflictFreeKernel {
  static constexpr int kSlice = 8;
  using Tile = QuadTile<8>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = 2;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {
    SharedArray<float, kSlice * Tile::kPaddedM> a;
    SharedArray<float, kSlice * Tile::kTileN> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto [first_row, first_column] = tile_place(g.n, Tile::kTileM, Tile::kTileN);
    const int a_row = thread_index() / 2;
    const int a_k = thread_index() % 2 * 4;
    const int b_k = thread_index() / 32;
    const int b_column = thread_index() % 32 * 4;
    const int a_left = first_row + a_row < g.m ? g.k - a_k : 0;
    const int b_left = g.n - first_column - b_column;
    const T* const a = g.a + int64_t{first_row + a_row} * g.k + a_k;
    const T* const b = g.b + int64_t{b_k} * g.n + first_column + b_column;

    Tile tile;
    for (int slice = 0; slice < g.k; slice += kSlice) {
      const Vec<float, 4> four = load_four(a + slice, a_left - slice, g.a_by_four);
#pragma unroll
      for (int p = 0; p < 4; ++p) shared.a[(a_k + p) * Tile::kPaddedM + a_row] = four[p];
      shared.b.template store<4>(
          b_k * Tile::kTileN + b_column,
          load_four(b + int64_t{slice} * g.n, slice + b_k < g.k ? b_left : 0, g.b_by_four));
      ptx::barrier_sync();
      tile.multiply_add<kSlice>(shared.a.span(), shared.b.span());
      ptx::barrier_sync();
    }
    tile.write(g, first_row, first_column);
  }
};

struct ConflictFree {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kPlainTypes>(call.dtype, [&]<class T>() {
      using Kernel = ConflictFreeKernel<T>;
      launch_tiles<Kernel, T>(call, Kernel::Tile::kTileM, Kernel::Tile::kTileN, context.stream);
    });
  }
};

// "offset": their way of padding.
inline constexpr Seed kConflictFreeSeeds[] = {
    {.name = "sgemm_t_8x8_sliced_k_f32x4_bcf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x8_sliced_k_f32x4_bcf_offset", .dtypes = {DType::kF32}},
    {.name = "hgemm_t_8x8_sliced_k_f16x4_bcf", .dtypes = {DType::kF16}},
    {.name = "hgemm_t_8x8_sliced_k_f16x4_pack_bcf", .dtypes = {DType::kF16}},
};
inline constexpr Rung kConflictFree = rung_of<ConflictFree, kPlainTypes, Gemm>({
    .name = "conflict_free",
    .from = "register_tile",
    .idea = "A transposed and padded in shared memory: 16-byte reads, no bank conflicts",
    .seeds = kConflictFreeSeeds,
});

}  // namespace ws::gemm
