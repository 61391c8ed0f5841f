// Idea: a block computes a square tile of C, and walks along K in slices. Of every slice it brings
//   a tile of A and one of B to shared memory once, where all its threads find them.
// From naive: an element, once read from the caches, serves 32 products instead of one.
// Traffic: M N K (1 / 32 + 1 / 32) elements from L2. For four multiply-adds four shared loads of B
//   and one of A: its row is the same for a whole warp.
// Limits: f32 and f16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/plain.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::gemm {

template <class T>
struct SlicedKKernel {
  static constexpr int kTile = 32;
  static constexpr int kThreads = kTile * kTile;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {
    SharedArray<float, kTile * kTile> a;
    SharedArray<float, kTile * kTile> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto [first_row, first_column] = tile_place(g.n, kTile, kTile);
    const int i = thread_index() / kTile;  // this thread's place in each of the three tiles
    const int j = thread_index() % kTile;
    const int64_t row = first_row + i;
    const int column = first_column + j;
    float sum = 0;
    for (int slice = 0; slice < g.k; slice += kTile) {
      const bool in_a = row < g.m && slice + j < g.k;
      const bool in_b = slice + i < g.k && column < g.n;
      shared.a[i * kTile + j] = in_a ? to_float(thread::load(g.a + row * g.k + slice + j)) : 0.0F;
      shared.b[i * kTile + j] =
          in_b ? to_float(thread::load(g.b + int64_t{slice + i} * g.n + column)) : 0.0F;
      ptx::barrier_sync();
#pragma unroll
      for (int p = 0; p < kTile; p += 4) {
        const Vec<float, 4> four = shared.a.template load<4>(i * kTile + p);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum += four[e] * shared.b[(p + e) * kTile + j];
      }
      ptx::barrier_sync();  // all have read: the tiles may be written again
    }
    if (row < g.m && column < g.n) thread::store(g.c + row * g.n + column, from_float<T>(sum));
  }
};

struct SlicedK {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kPlainTypes>(call.dtype, [&]<class T>() {
      using Kernel = SlicedKKernel<T>;
      launch_tiles<Kernel, T>(call, Kernel::kTile, Kernel::kTile, context.stream);
    });
  }
};

inline constexpr Seed kSlicedKSeeds[] = {
    {.name = "sgemm_sliced_k_f32", .dtypes = {DType::kF32}},
    {.name = "hgemm_sliced_k_f16", .dtypes = {DType::kF16}},
};
inline constexpr Rung kSlicedK = rung_of<SlicedK, kPlainTypes, Gemm>({
    .name = "sliced_k",
    .from = "naive",
    .idea = "a block's tile, slices of K in shared memory",
    .seeds = kSlicedKSeeds,
});

}  // namespace ws::gemm
