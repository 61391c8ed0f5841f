// Idea: cp.async brings a slice to shared memory past the registers: nothing waits in them, and no
//   thread stores it. Copies of 4 bytes put A's elements where the transposed tile wants them.
// From double_buffer: as many registers fewer as a thread's part of a slice has, and no stores
//   between the multiply-adds; but A takes four copy instructions where it took a load and four
//   stores.
// Traffic: as double_buffer.
// Limits: f32 (a copy has 4 bytes at least); dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/quad_tile.hpp"
#include "kernels/gemm/simt_policies.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cp_async.hpp"

namespace ws::gemm {

template <class Policy>
struct AsyncCopyKernel {
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
  };

  // Copies slice i of K; what the matrices do not have is filled with zeros. Where the tile and the
  // slice are whole nobody asks.
  template <bool kWhole>
  __device__ __forceinline__ static void copy_slice(SharedStorage& shared, const Arguments& g,
                                                    int row, int column, int i) {
    float* const to_a = shared.a.pointer(i % 2 * kElementsA);
    float* const to_b = shared.b.pointer(i % 2 * kElementsB);
    // Of A eight lanes a row, element by element: in shared memory they lie in different banks.
    const int a_row = thread_index() / 8;
    const int a_k = thread_index() % 8;
    const float* const a = g.a + int64_t{row + a_row} * g.k + i * kSlice + a_k;
#pragma unroll
    for (int k = 0; k < kSlice; k += 8) {
#pragma unroll
      for (int down = 0; down < Tile::kTileM; down += kThreads / 8) {
        const bool exists = kWhole || (row + a_row + down < g.m && i * kSlice + a_k + k < g.k);
        ptx::cp_async<4>(to_a + (a_k + k) * Tile::kPaddedM + a_row + down,
                         exists ? a + int64_t{down} * g.k + k : g.a, exists ? 4 : 0);
      }
    }
    constexpr int kRowThreads = Tile::kTileN / 4;
    const int b_column = thread_index() % kRowThreads * 4;
#pragma unroll
    for (int down = 0; down < kSlice; down += kThreads / kRowThreads) {
      const int b_k = down + thread_index() / kRowThreads;
      const float* const from = g.b + int64_t{i * kSlice + b_k} * g.n + column + b_column;
      float* const to = to_b + b_k * Tile::kTileN + b_column;
      const int left = kWhole                    ? 4
                       : i * kSlice + b_k >= g.k ? 0
                                                 : std::clamp(g.n - column - b_column, 0, 4);
      if (g.b_by_four) {
        ptx::cp_async<16>(to, left > 0 ? from : g.b, left * 4);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          ptx::cp_async<4>(to + e, e < left ? from + e : g.b, e < left ? 4 : 0);
        }
      }
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto [row, column] = tile_place(g.n, Tile::kTileM, Tile::kTileN);
    const bool whole_tile = row + Tile::kTileM <= g.m && column + Tile::kTileN <= g.n;
    const int slices = divide_up(g.k, kSlice);
    const auto copy = [&, row = row, column = column](int i) {
      if (whole_tile && (i + 1) * kSlice <= g.k) {
        copy_slice<true>(shared, g, row, column, i);
      } else {
        copy_slice<false>(shared, g, row, column, i);
      }
    };
    Tile tile;
    if (slices > 0) copy(0);
    for (int i = 0; i < slices; ++i) {
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      // This slice has landed, for all threads; and nobody reads the buffer before any more.
      ptx::barrier_sync();
      if (i + 1 < slices) copy(i + 1);
      tile.template multiply_add<kSlice>({shared.a.pointer(i % 2 * kElementsA), kElementsA},
                                         {shared.b.pointer(i % 2 * kElementsB), kElementsB});
    }
    tile.write(g, row, column);
  }

  static void run(const Call& call, Stream stream) {
    launch_tiles<AsyncCopyKernel, float>(call, Tile::kTileM, Tile::kTileN, stream);
  }
};

struct AsyncCopy {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_quad_policy<16>(call, device_facts().multiprocessors, [&]<class Policy>() {
      AsyncCopyKernel<Policy>::run(call, context.stream);
    });
  }
};

inline constexpr Seed kAsyncCopySeeds[] = {
    {.name = "sgemm_t_8x4_sliced_k16_f32x4_bcf_dbuf_async", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf_async", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x16_sliced_k16_f32x4_bcf_dbuf_async", .dtypes = {DType::kF32}},
};
inline constexpr Rung kAsyncCopy = rung_of<AsyncCopy, DTypes{DType::kF32}, Gemm>({
    .name = "async_copy",
    .from = "double_buffer",
    .idea = "cp.async fills the other buffer past the registers, and transposes A on the way",
    .seeds = kAsyncCopySeeds,
});

}  // namespace ws::gemm
