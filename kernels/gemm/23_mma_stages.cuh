// Idea: a ring of stages. cp.async brings the slices of K to shared memory past the registers,
//   three stages ahead of the one that is multiplied.
// From mma_ldmatrix: nobody waits for global memory, and there is one barrier a slice, of 32 of K,
//   instead of two for every 16.
// Traffic: as mma_tile; the two blocks of an SM have 111 KB in flight.
// Limits: f16 and bf16; a row-major A and B, layout nn, rows aligned to 16 bytes.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/tile/mma_fragments.hpp"
#include "warpsmith/tile/staged_copy.hpp"

namespace ws::gemm {

// Shared with the rungs above, which have other tiles in shared memory, another order of tiles, or
// other sums: Stages::Tile<runs, length>, Stages::kTileK, kCount, kBand.
template <class T, class Stages, class Accumulator = float>
struct MmaStagesKernel {
  static constexpr int kTile = 128;  // rows and columns of C
  static constexpr int kTileK = Stages::kTileK;
  static constexpr int kStages = Stages::kCount;
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;
  using TileA = typename Stages::template Tile<kTile, kTileK>;
  using TileB = typename Stages::template Tile<kTileK, kTile>;
  using CursorA = tile::OperandCursor<T, true, kTile, kTileK, kThreads, TileA>;
  using CursorB = tile::OperandCursor<T, false, kTile, kTileK, kThreads, TileB>;
  using Fragments = tile::MmaFragments<T, 64, 32, Accumulator>;

  using Arguments = CopiedArguments<T>;
  struct SharedStorage {
    SharedArray<T, kStages * TileA::kElements, 128> a;
    SharedArray<T, kStages * TileB::kElements, 128> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()));
    CursorA a(g.a, g.a_leading, tile.m * kTile, g.m, g.k, 16);
    CursorB b(g.b, g.b_leading, tile.n * kTile, g.n, g.k, 16);
    const auto stage_a = [&](int stage) {
      return SharedSpan<T>{shared.a.pointer(stage * TileA::kElements), TileA::kElements};
    };
    const auto stage_b = [&](int stage) {
      return SharedSpan<T>{shared.b.pointer(stage * TileB::kElements), TileB::kElements};
    };
    const auto copy_next = [&](int stage) {
      tile::copy_both<16>(a, stage_a(stage), b, stage_b(stage));
      ptx::cp_async_commit_group();
    };
    for (int stage = 0; stage < kStages - 1; ++stage) copy_next(stage);

    const int row = warp_index() / 4 * 64;
    const int column = warp_index() % 4 * 32;
    const typename Fragments::template LaneOffsets<TileA, true, TileB, false> lane(row, column);
    typename Fragments::Sums sums = {};
    int stage = 0;
    for (int left = divide_up(g.k, kTileK); left > 0; --left) {
      ptx::cp_async_wait_group<kStages - 2>();
      // This stage has landed, for all threads; and nobody reads the one before any more.
      ptx::barrier_sync();
      copy_next((stage + kStages - 1) % kStages);
#pragma unroll
      for (int k = 0; k < kTileK; k += 16) {
        Fragments fragments;
#pragma unroll
        for (int part = 0; part < Fragments::kDown; ++part) {
          fragments.load(part, stage_a(stage), stage_b(stage), lane, k);
        }
        fragments.multiply_add(sums);
      }
      stage = (stage + 1) % kStages;
    }
    Fragments::for_each_pair(sums, [&](int i, int j, float first, float second) {
      i += tile.m * kTile + row;
      j += tile.n * kTile + column;
      if (i < g.m) store_pair(g.c + i * g.c_leading + j, g.n - j, g.c_aligned, first, second);
    });
  }

  static void run(const Call& call, const Context& context) {
    const tile::Raster raster = raster_of(call, kTile, kTile, Stages::kBand);
    launch<MmaStagesKernel>({.blocks = raster.count(), .threads = kThreads}, context.stream,
                            {call, raster, 16});
  }
};

template <class Stages>
struct MmaStaged {
  static bool supports(const Call& call, Why& why) { return is_aligned_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { MmaStagesKernel<T, Stages>::run(call, context); });
  }
};

// 74 KB for two blocks an SM of compute capability 8.0: estimated, not yet chosen by measurement.
struct PaddedStages {
  template <int kRuns, int kLength>
  using Tile = tile::PaddedTile<kRuns, kLength>;
  static constexpr int kTileK = 32;
  static constexpr int kCount = 4;
  static constexpr int kBand = 1;  // row of tiles after row of tiles
};

inline constexpr Seed kMmaStagesSeeds[] = {
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages", .dtypes = {DType::kF16}},
    {.name = "hgemm_mma_m16n8k16_mma2x4_warp4x4_stages_dsmem", .dtypes = {DType::kF16}},
};
inline constexpr Rung kMmaStages = rung_of<MmaStaged<PaddedStages>, kHalves, Gemm>({
    .name = "mma_stages",
    .from = "mma_ldmatrix",
    .idea = "cp.async fills a ring of four stages, three slices of K ahead",
    .seeds = kMmaStagesSeeds,
});

}  // namespace ws::gemm
