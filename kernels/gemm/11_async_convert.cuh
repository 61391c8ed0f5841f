// Idea: cp.async brings f16 as it lies to shared memory, where each thread has a place of its own
//   for what it copies; there it reads it again, converts it, and stores it into the tile. What a
//   thread has copied itself it may read after its own wait: the one barrier a slice is enough.
// From double_buffer: the slice under way has no registers. A copy cannot convert, nor transpose
//   two bytes: where f32 (async_copy) spares the stores, f16 adds a load to them.
// Traffic: as double_buffer.
// Limits: f16; dense row-major matrices, layout nn. Rows that do not start at multiples of 16 bytes
//   are loaded, not copied.
#pragma once

#include <algorithm>

#include "kernels/gemm/quad_tile.hpp"
#include "kernels/gemm/simt_policies.hpp"
#include "kernels/gemm/slice_share.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cp_async.hpp"

namespace ws::gemm {

template <class Policy>
struct AsyncConvertKernel {
  static constexpr int kSlice = Policy::kSlice;
  using Tile = QuadTile<Policy::kColumns, 8>;
  using Share = SliceShare<half, Tile, kSlice>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = Policy::kMinBlocks;
  static constexpr int kElementsA = kSlice * Tile::kStepA;
  static constexpr int kElementsB = kSlice * Tile::kStepB;

  using Arguments = PlainArguments<half>;
  struct SharedStorage {
    SharedArray<float, 2 * kElementsA> a;
    SharedArray<float, 2 * kElementsB> b;
    SharedArray<half, (Share::kPiecesA + Share::kPiecesB) * kThreads * 8> landed;
  };

  // Where this thread's piece lands: beside its neighbours'.
  __device__ __forceinline__ static int landing(int piece) {
    return (piece * kThreads + thread_index()) * 8;
  }

  __device__ __forceinline__ static void copy_piece(SharedStorage& shared, int piece,
                                                    const typename Share::Source& at,
                                                    const half* somewhere) {
    const int left = std::clamp(at.left, 0, 8);
    if (at.whole) {
      ptx::cp_async<16>(shared.landed.pointer(landing(piece)), left > 0 ? at.from : somewhere,
                        left * 2);
    } else {
      shared.landed.template store<8>(landing(piece), load_piece<8>(at.from, left, false));
    }
  }
  __device__ __forceinline__ static void copy_slice(SharedStorage& shared, const Arguments& g,
                                                    TilePlace first, int slice) {
#pragma unroll
    for (int i = 0; i < Share::kPiecesA; ++i) {
      copy_piece(shared, i, Share::source_a(g, first.row, slice, i), g.a);
    }
#pragma unroll
    for (int i = 0; i < Share::kPiecesB; ++i) {
      copy_piece(shared, Share::kPiecesA + i, Share::source_b(g, first.column, slice, i), g.b);
    }
  }

  // What this thread has copied, as f32 into the tile's buffers.
  __device__ __forceinline__ static void convert_slice(SharedStorage& shared, SharedSpan<float> a,
                                                       SharedSpan<float> b) {
#pragma unroll
    for (int i = 0; i < Share::kPiecesA; ++i) {
      Share::store_a(a, i, shared.landed.template load<8>(landing(i)));
    }
#pragma unroll
    for (int i = 0; i < Share::kPiecesB; ++i) {
      Share::store_b(b, i, shared.landed.template load<8>(landing(Share::kPiecesA + i)));
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const TilePlace first = tile_place(g.n, Tile::kTileM, Tile::kTileN);
    const int slices = divide_up(g.k, kSlice);
    Tile tile;
    if (slices > 0) copy_slice(shared, g, first, 0);
    for (int i = 0; i < slices; ++i) {
      const SharedSpan<float> a{shared.a.pointer(i % 2 * kElementsA), kElementsA};
      const SharedSpan<float> b{shared.b.pointer(i % 2 * kElementsB), kElementsB};
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      convert_slice(shared, a, b);
      // The tile is there, for all threads; and nobody reads the other buffer any more.
      ptx::barrier_sync();
      if (i + 1 < slices) copy_slice(shared, g, first, (i + 1) * kSlice);
      tile.template multiply_add<kSlice>(a, b);
    }
    tile.write(g, first.row, first.column);
  }

  static void run(const Call& call, Stream stream) {
    launch_tiles<AsyncConvertKernel, half>(call, Tile::kTileM, Tile::kTileN, stream);
  }
};

struct AsyncConvert {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_octet_policy(call, device_facts().multiprocessors, [&]<class Policy>() {
      AsyncConvertKernel<Policy>::run(call, context.stream);
    });
  }
};

inline constexpr Seed kAsyncConvertSeeds[] = {
    {.name = "hgemm_t_8x8_sliced_k16_f16x8_pack_dbuf_async"},
    {.name = "hgemm_t_8x8_sliced_k32_f16x8_pack_dbuf_async"},
    {.name = "hgemm_t_16x8_sliced_k32_f16x8_pack_dbuf_async"},
};
inline constexpr Rung kAsyncConvert = rung_of<AsyncConvert, DTypes{DType::kF16}, Gemm>({
    .name = "async_convert",
    .from = "double_buffer",
    .idea = "cp.async lands f16 as it lies; a thread converts what it has copied itself",
    .seeds = kAsyncConvertSeeds,
});

}  // namespace ws::gemm
