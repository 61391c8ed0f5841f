// Idea: a ring of stages, as far as wmma goes. cp.async fills slices of K ahead of the one that is
//   multiplied, and tiles run in bands, so that L2 answers most of them.
// From wmma_tile: nobody waits for global memory, one barrier for 32 of K instead of two for 16. A
//   policy says how many stages, which warps and which fragments: two stages are the double buffer.
// Traffic: M N K (1 / tile_m + 1 / tile_n) elements from L2, each operand from memory about once.
//   Slices of B lie in panels as wide as a fragment, each of whose rows follows the one before: no
//   bank conflicts, and fragments of 8 columns start at multiples of 32 bytes too.
// Limits: f16 and bf16; a row-major A and B, layout nn, rows aligned to 16 bytes. wmma says
//   how a fragment is read: rows at one distance, so no swizzle.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/wmma_output.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/tile/staged_copy.hpp"

namespace ws::gemm {

// Warps of a block, fragments of a warp, and what a fragment is: rows by columns, 32 bytes of K.
struct WmmaShape {
  int warps_m;
  int warps_n;
  int down;
  int across;
  int rows = 16;
  int columns = 16;
  int stages = 4;
  int blocks = 2;  // that share an SM
  int unroll = 2;  // fragments of K in flight at once
};

template <class T, WmmaShape kShape, class Sum = float>
struct WmmaStagesKernel {
  static constexpr int kDepth = 32 / sizeof(T);
  using Product = ptx::Wmma<T, kShape.rows, kShape.columns, kDepth, Sum>;
  static constexpr int kWarps = kShape.warps_m * kShape.warps_n;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kWarpM = kShape.down * Product::kM;
  static constexpr int kWarpN = kShape.across * Product::kN;
  static constexpr int kTileM = kShape.warps_m * kWarpM;
  static constexpr int kTileN = kShape.warps_n * kWarpN;
  static constexpr int kTileK = 2 * kDepth;
  static constexpr int kStages = kShape.stages;
  using TileA = tile::PaddedTile<kTileM, kTileK, 16 / sizeof(T)>;
  // A lane reads floats one by one, from four rows of eight: 32 bytes after each row are needed.
  using TileB = std::conditional_t<Product::kTf32, tile::PaddedTile<kTileK, kTileN, 32 / sizeof(T)>,
                                   tile::PanelTile<kTileK, kTileN, Product::kN>>;
  using CursorA = tile::OperandCursor<T, true, kTileM, kTileK, kThreads, TileA>;
  using CursorB = tile::OperandCursor<T, false, kTileN, kTileK, kThreads, TileB>;

  using Arguments = CopiedArguments<T>;
  struct SharedStorage {
    SharedArray<T, kStages * TileA::kElements, 128> a;
    SharedArray<T, kStages * TileB::kElements, 128> b;
    WmmaOutput<Product, kWarps> output;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()));
    CursorA copy_a(g.a, g.a_leading, tile.m * kTileM, g.m, g.k, 16);
    CursorB copy_b(g.b, g.b_leading, tile.n * kTileN, g.n, g.k, 16);
    const auto copy_next = [&](int stage) {
      tile::copy_both<16>(
          copy_a, SharedSpan<T>{shared.a.pointer(stage * TileA::kElements), TileA::kElements},
          copy_b, SharedSpan<T>{shared.b.pointer(stage * TileB::kElements), TileB::kElements});
      ptx::cp_async_commit_group();
    };
    for (int stage = 0; stage < kStages - 1; ++stage) copy_next(stage);

    const int row = warp_index() / kShape.warps_n * kWarpM;
    const int column = warp_index() % kShape.warps_n * kWarpN;
    typename Product::Sums sums[kShape.down][kShape.across];
#pragma unroll
    for (int i = 0; i < kShape.down; ++i) {
#pragma unroll
      for (int j = 0; j < kShape.across; ++j) Product::clear(sums[i][j]);
    }
    int stage = 0;
    for (int left = divide_up(g.k, kTileK); left > 0; --left) {
      ptx::cp_async_wait_group<kStages - 2>();
      // This stage has landed, for all threads; and nobody reads the one before any more.
      ptx::barrier_sync();
      copy_next((stage + kStages - 1) % kStages);
      T* const stage_a = shared.a.pointer(stage * TileA::kElements);
      T* const stage_b = shared.b.pointer(stage * TileB::kElements);
#pragma unroll(kShape.unroll)
      for (int k = 0; k < kTileK; k += kDepth) {
        typename Product::A a[kShape.down];
#pragma unroll
        for (int i = 0; i < kShape.down; ++i) {
          Product::load(a[i], stage_a + TileA::offset(row + i * Product::kM, k), TileA::kPitch);
        }
#pragma unroll
        for (int j = 0; j < kShape.across; ++j) {
          typename Product::B b;
          Product::load(b, stage_b + TileB::offset(k, column + j * Product::kN), TileB::kPitch);
#pragma unroll
          for (int i = 0; i < kShape.down; ++i) Product::multiply_add(sums[i][j], a[i], b);
        }
      }
      stage = (stage + 1) % kStages;
    }
#pragma unroll
    for (int i = 0; i < kShape.down; ++i) {
#pragma unroll
      for (int j = 0; j < kShape.across; ++j) {
        const int at_row = tile.m * kTileM + row + i * Product::kM;
        const int at_column = tile.n * kTileN + column + j * Product::kN;
        shared.output.write(sums[i][j], g.c + at_row * g.c_leading + at_column, g.c_leading,
                            g.m - at_row, g.n - at_column, g.c_aligned);
      }
    }
  }

  static void run(const Call& call, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM, kTileN);
    launch<WmmaStagesKernel>({.blocks = raster.count(), .threads = kThreads}, stream,
                             {call, raster, 16});
  }
};

template <WmmaShape kShape>
struct WmmaStages {
  static bool supports(const Call& call, Why& why) { return is_aligned_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { WmmaStagesKernel<T, kShape>::run(call, context.stream); });
  }
};

// 128 x 128, 74 KB of stages: an estimate, not yet measured.
inline constexpr WmmaShape kWmmaStagesShape = {.warps_m = 4, .warps_n = 2, .down = 2, .across = 4};

// "stages", "dsmem" and "swizzle" are one here: a ring in whatever memory it takes, and bands.
inline constexpr Seed kWmmaStagesSeeds[] = {
    {.name = "hgemm_wmma_m16n16k16_mma4x2_warp2x4_dbuf_async", .dtypes = {DType::kF16}},
    {.name = "hgemm_wmma_m16n16k16_mma4x2_warp2x4_stages", .dtypes = {DType::kF16}},
    {.name = "hgemm_wmma_m16n16k16_mma4x2_warp2x4_stages_dsmem", .dtypes = {DType::kF16}},
    {.name = "hgemm_wmma_m16n16k16_mma4x2_warp2x4_stages_swizzle", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWmmaStages = rung_of<WmmaStages<kWmmaStagesShape>, kHalves, Gemm>({
    .name = "wmma_stages",
    .from = "wmma_tile",
    .idea = "cp.async fills a ring of stages ahead of the products; tiles in bands",
    .seeds = kWmmaStagesSeeds,
});

}  // namespace ws::gemm
