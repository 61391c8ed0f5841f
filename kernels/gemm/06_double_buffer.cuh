// Idea: two buffers of shared memory. The next slice of K is loaded into registers before this one
//   is multiplied, and stored into the other buffer after: the loads fly under the arithmetic.
// From conflict_free: no warp waits for global memory, and one barrier a slice instead of two.
//   A thread computes 8 x 16, 8 x 8 or 8 x 4: the largest that leaves no SM without a tile.
// Traffic: M N K (1 / 128 + 1 / (16 * columns of a thread)) elements from L2.
// Limits: f32; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/05_conflict_free.cuh"
#include "kernels/gemm/simt_policies.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::gemm {

template <class Policy>
struct DoubleBufferKernel {
  static constexpr int kSlice = Policy::kSlice;
  using Tile = QuadTile<Policy::kColumns>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = Policy::kMinBlocks;
  static constexpr int kElementsA = kSlice * Tile::kPaddedM;
  static constexpr int kElementsB = kSlice * Tile::kTileN;

  using Arguments = PlainArguments<float>;
  struct SharedStorage {
    SharedArray<float, 2 * kElementsA> a;
    SharedArray<float, 2 * kElementsB> b;

    __device__ __forceinline__ SharedSpan<float> buffer_a(int i) {
      return {a.pointer(i % 2 * kElementsA), kElementsA};
    }
    __device__ __forceinline__ SharedSpan<float> buffer_b(int i) {
      return {b.pointer(i % 2 * kElementsB), kElementsB};
    }
  };

  // A thread's part of a slice: of A four of K for every eight, two threads a row; of B rows.
  struct Part {
    static constexpr int kRowThreads = Tile::kTileN / 4;
    static constexpr int kRows = kThreads / kRowThreads;
    static_assert(kSlice % 8 == 0 && kSlice % kRows == 0);

    __device__ __forceinline__ void load(const Arguments& g, int row, int column, int slice) {
#pragma unroll
      for (int i = 0; i < kSlice / 8; ++i) {
        const int at_row = row + thread_index() / 2;
        const int at_k = slice + i * 8 + thread_index() % 2 * 4;
        a[i] = load_four(g.a + int64_t{at_row} * g.k + at_k, at_row < g.m ? g.k - at_k : 0,
                         g.a_by_four);
      }
#pragma unroll
      for (int i = 0; i < kSlice / kRows; ++i) {
        const int at_k = slice + i * kRows + thread_index() / kRowThreads;
        const int at_column = column + thread_index() % kRowThreads * 4;
        b[i] = load_four(g.b + int64_t{at_k} * g.n + at_column, at_k < g.k ? g.n - at_column : 0,
                         g.b_by_four);
      }
    }
    __device__ __forceinline__ void store(SharedSpan<float> to_a, SharedSpan<float> to_b) const {
#pragma unroll
      for (int i = 0; i < kSlice / 8; ++i) {
        const int at_k = i * 8 + thread_index() % 2 * 4;
#pragma unroll
        for (int p = 0; p < 4; ++p) {
          to_a[(at_k + p) * Tile::kPaddedM + thread_index() / 2] = a[i][p];
        }
      }
#pragma unroll
      for (int i = 0; i < kSlice / kRows; ++i) {
        const int at_k = i * kRows + thread_index() / kRowThreads;
        to_b.template store<4>(at_k * Tile::kTileN + thread_index() % kRowThreads * 4, b[i]);
      }
    }

    Vec<float, 4> a[kSlice / 8];
    Vec<float, 4> b[kSlice / kRows];
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto [row, column] = tile_place(g.n, Tile::kTileM, Tile::kTileN);
    const int slices = divide_up(g.k, kSlice);
    Tile tile;
    Part part;
    part.load(g, row, column, 0);
    part.store(shared.buffer_a(0), shared.buffer_b(0));
    ptx::barrier_sync();
    for (int i = 0; i < slices; ++i) {
      const bool more = i + 1 < slices;
      if (more) part.load(g, row, column, (i + 1) * kSlice);
      tile.template multiply_add<kSlice>(shared.buffer_a(i), shared.buffer_b(i));
      // Nobody reads the other buffer: all have passed the barrier after its slice.
      if (more) part.store(shared.buffer_a(i + 1), shared.buffer_b(i + 1));
      ptx::barrier_sync();
    }
    tile.write(g, row, column);
  }

  static void run(const Call& call, Stream stream) {
    launch_tiles<DoubleBufferKernel, float>(call, Tile::kTileM, Tile::kTileN, stream);
  }
};

struct DoubleBuffer {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_quad_policy<8>(call, device_facts().multiprocessors, [&]<class Policy>() {
      DoubleBufferKernel<Policy>::run(call, context.stream);
    });
  }
};

// The tiles 8 x 4, 8 x 8, 8 x 16 of a thread are policies here.
inline constexpr Seed kDoubleBufferSeeds[] = {
    {.name = "sgemm_t_8x8_sliced_k_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x8_sliced_k_f32x4_bcf_dbuf_offset", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x4_sliced_k16_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x16_sliced_k16_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
};
inline constexpr Rung kDoubleBuffer = rung_of<DoubleBuffer, DTypes{DType::kF32}, Gemm>({
    .name = "double_buffer",
    .from = "conflict_free",
    .idea = "two buffers: the next slice of K is on its way while this one is multiplied",
    .seeds = kDoubleBufferSeeds,
});

}  // namespace ws::gemm
