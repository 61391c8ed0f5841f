// Idea: two buffers of shared memory. The next slice of K is loaded into registers before this one
//   is multiplied, and stored into the other buffer after: the loads fly under the arithmetic.
// From conflict_free: no warp waits for global memory, and one barrier a slice instead of two.
//   A thread computes 8 x 16, 8 x 8 or 8 x 4: the largest that leaves no SM without a tile. In f16,
//   as in wide_load, the same registers hold twice as much of K, and 8 x 4 would be half an access.
// Traffic: M N K (1 / 128 + 1 / (16 * columns of a thread)) elements from L2.
// Limits: f32 and f16; dense row-major matrices, layout nn.
#pragma once

#include "kernels/gemm/quad_tile.hpp"
#include "kernels/gemm/simt_policies.hpp"
#include "kernels/gemm/slice_share.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::gemm {

// Shared with the rung above.
template <class T, class Policy, class ItsTile = QuadTile<Policy::kColumns, 16 / sizeof(T)>>
struct DoubleBufferKernel {
  using Tile = ItsTile;
  using Element = typename Tile::Element;
  static constexpr int kSlice = Policy::kSlice;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = Policy::kMinBlocks;
  static constexpr int kElementsA = kSlice * Tile::kStepA;
  static constexpr int kElementsB = kSlice * Tile::kStepB;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {
    SharedArray<Element, 2 * kElementsA> a;
    SharedArray<Element, 2 * kElementsB> b;

    __device__ __forceinline__ SharedSpan<Element> buffer_a(int i) {
      return {a.pointer(i % 2 * kElementsA), kElementsA};
    }
    __device__ __forceinline__ SharedSpan<Element> buffer_b(int i) {
      return {b.pointer(i % 2 * kElementsB), kElementsB};
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const TilePlace first = tile_place(g.n, Tile::kTileM, Tile::kTileN);
    const int slices = divide_up(g.k, kSlice);
    Tile tile;
    SliceShare<T, Tile, kSlice> share;
    share.load(g, first, 0);
    share.store(shared.buffer_a(0), shared.buffer_b(0));
    ptx::barrier_sync();
    for (int i = 0; i < slices; ++i) {
      const bool more = i + 1 < slices;
      if (more) share.load(g, first, (i + 1) * kSlice);
      tile.template multiply_add<kSlice>(shared.buffer_a(i), shared.buffer_b(i));
      // Nobody reads the other buffer: all have passed the barrier after its slice.
      if (more) share.store(shared.buffer_a(i + 1), shared.buffer_b(i + 1));
      ptx::barrier_sync();
    }
    tile.write(g, first.row, first.column);
  }

  static void run(const Call& call, Stream stream) {
    launch_tiles<DoubleBufferKernel, T>(call, Tile::kTileM, Tile::kTileN, stream);
  }
};

struct DoubleBuffer {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    if (call.dtype == DType::kF32) {
      with_quad_policy<8>(call, multiprocessors, [&]<class Policy>() {
        DoubleBufferKernel<float, Policy>::run(call, context.stream);
      });
    } else {
      with_octet_policy(call, multiprocessors, [&]<class Policy>() {
        DoubleBufferKernel<half, Policy>::run(call, context.stream);
      });
    }
  }
};

// The tiles 8 x 4, 8 x 8, 8 x 16 (16 x 8 lying) of a thread are policies here, and so is how much
// of K a slice has.
inline constexpr Seed kDoubleBufferSeeds[] = {
    {.name = "sgemm_t_8x8_sliced_k_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x8_sliced_k_f32x4_bcf_dbuf_offset", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x4_sliced_k16_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x8_sliced_k16_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "sgemm_t_8x16_sliced_k16_f32x4_bcf_dbuf", .dtypes = {DType::kF32}},
    {.name = "hgemm_t_8x8_sliced_k_f16x8_pack_bcf_dbuf", .dtypes = {DType::kF16}},
    {.name = "hgemm_t_8x8_sliced_k16_f16x8_pack_dbuf", .dtypes = {DType::kF16}},
    {.name = "hgemm_t_8x8_sliced_k32_f16x8_pack_dbuf", .dtypes = {DType::kF16}},
    {.name = "hgemm_t_16x8_sliced_k32_f16x8_pack_dbuf", .dtypes = {DType::kF16}},
};
inline constexpr Rung kDoubleBuffer = rung_of<DoubleBuffer, kPlainTypes, Gemm>({
    .name = "double_buffer",
    .from = "conflict_free",
    .idea = "two buffers: the next slice of K is on its way while this one is multiplied",
    .seeds = kDoubleBufferSeeds,
});

}  // namespace ws::gemm
