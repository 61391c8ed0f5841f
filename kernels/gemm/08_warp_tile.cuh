// Idea: the tile of a warp. Its 32 lanes, four by eight, compute one compact part of the block's
//   tile, so that what one lane reads of A or B its neighbours read in the same instruction: shared
//   memory answers them once.
// From async_copy: fewer bytes of shared memory for a multiply-add. Runs along K are read along K,
//   four steps at a time, from swizzled rows: nothing is transposed, every layout takes the same
//   time. Three stages; small blocks, so that four of them share an SM.
// Traffic: M N K (1 / 64 + 1 / 64) elements from L2; tiles run in bands (tile::Raster).
// Limits: f32; a stride of each matrix must be 1. Rows aligned to 16 bytes are copied by 16, others
//   by 4.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/simt_policies.hpp"
#include "kernels/gemm/thread_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/tile/staged_copy.hpp"

namespace ws::gemm {

template <Contiguous kA, Contiguous kB, class Policy>
struct WarpTileKernel : Policy {
  using Policy::kStages, Policy::kTileK, Policy::kTileM, Policy::kTileN, Policy::kThreads;
  static constexpr bool kARunsAlongK = kA == Contiguous::kColumns;
  static constexpr bool kBRunsAlongK = kB == Contiguous::kRows;
  using Tile = ThreadTile<Policy, kARunsAlongK, kBRunsAlongK>;
  using TileA = typename Tile::TileA;
  using TileB = typename Tile::TileB;
  using CursorA = tile::OperandCursor<float, kARunsAlongK, kTileM, kTileK, kThreads, TileA>;
  using CursorB = tile::OperandCursor<float, kBRunsAlongK, kTileN, kTileK, kThreads, TileB>;

  using Arguments = CopiedArguments<float>;
  struct SharedStorage {
    SharedArray<float, kStages * TileA::kElements, 128> a;
    SharedArray<float, kStages * TileB::kElements, 128> b;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    multiply(shared, g, static_cast<int>(block_index()));
  }

  __device__ __forceinline__ static void multiply(SharedStorage& shared, const Arguments& g,
                                                  int index) {
    multiply(shared, g, index, [](Tile& /*product*/, int /*row*/, int /*column*/) {});
  }
  // Before a tile is written, finish(product, row, column of its first element) may change its
  // sums.
  template <class Finish>
  __device__ __forceinline__ static void multiply(SharedStorage& shared, const Arguments& g,
                                                  int index, Finish&& finish) {
    const tile::TileIndex tile = g.raster.at(index);
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    CursorA a(g.a, g.a_leading, row, g.m, g.k, g.copy_bytes);
    CursorB b(g.b, g.b_leading, column, g.n, g.k, g.copy_bytes);
    const auto copy_next = [&](int stage) {
      const SharedSpan<float> to_a{shared.a.pointer(stage * TileA::kElements), TileA::kElements};
      const SharedSpan<float> to_b{shared.b.pointer(stage * TileB::kElements), TileB::kElements};
      tile::copy_both(a, to_a, b, to_b, g.copy_bytes);
      ptx::cp_async_commit_group();
    };
    for (int stage = 0; stage < kStages - 1; ++stage) copy_next(stage);

    Tile product;
    int stage = 0;
    for (int left = divide_up(g.k, kTileK); left > 0; --left) {
      ptx::cp_async_wait_group<kStages - 2>();
      // This stage has landed, for all threads; and nobody reads the one before any more.
      ptx::barrier_sync();
      copy_next((stage + kStages - 1) % kStages);
      product.multiply_add(shared.a.span(), shared.b.span(), stage);
      stage = (stage + 1) % kStages;
    }
    finish(product, row, column);
    product.write(g.c + row * g.c_leading + column, g.c_leading, g.m - row, g.n - column,
                  g.c_aligned);
  }

  static void run(const Call& call, Stream stream) {
    const tile::Raster raster = Policy::raster(call);
    launch<WarpTileKernel>({.blocks = raster.count(), .threads = kThreads}, stream,
                           {call, raster, copy_bytes_of(call)});
  }
};

struct WarpTile {
  static bool supports(const Call& call, Why& why) { return runs_supported(call, why); }
  static void run(const Call& call, const Context& context);
};

}  // namespace ws::gemm
