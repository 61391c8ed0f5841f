// Idea: rows that start anywhere are put right on their way to shared memory: a lane loads the two
//   pieces of 16 bytes across which a vector lies, shifts them together and stores it where wgmma
//   reads it. Eight warps do that for the stages of a ring, under the products of the others.
// From batched_realigned: operands are read once, not read, written and read again; one launch, no
//   workspace.
// Traffic: a tile's operands are read from L2, in parts of five sectors for four.
// Limits: sm_90a, f16 and bf16; K > 0, a stride of each matrix 1.
// Long: those who load and those who multiply belong on one page.
#pragma once

#include "kernels/gemm/batched_parts.hpp"
#include "kernels/gemm/batched_plan.hpp"
#include "kernels/gemm/shifted_tile.hpp"

namespace ws::gemm {

template <class T, Contiguous kA, Contiguous kB, BatchedShiftedShape kShape>
struct BatchedShiftedKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = 64;
  static constexpr int kStages = kShape.stages;
  static constexpr int kMinBlocks = kShape.blocks;
  static constexpr int kConsumerThreads = 128 * kShape.consumers;
  static constexpr int kLoaderThreads = 32 * kShape.loaders;
  static constexpr int kThreads = kConsumerThreads + kLoaderThreads;
  static constexpr int kRowBlocks = kTileM / 64 / kShape.consumers;
  static constexpr ptx::Major kMajorA =
      kA == Contiguous::kColumns ? ptx::Major::kK : ptx::Major::kMN;
  static constexpr ptx::Major kMajorB = kB == Contiguous::kRows ? ptx::Major::kK : ptx::Major::kMN;
  using StageA = tile::OperandStage<T, kMajorA, kTileM, kTileK, 1>;
  using StageB = tile::OperandStage<T, kMajorB, kTileN, kTileK, 1>;
  using TileA = ShiftedTile<T, StageA, kLoaderThreads>;
  using TileB = ShiftedTile<T, StageB, kLoaderThreads>;
  using Store = tile::WarpStore<T, 1, 64>;
  using Position = tile::PipelinePosition<kStages>;

  struct Arguments {
    ShiftedOperand<T> a;
    ShiftedOperand<T> b;
    BatchedPlainOutput<T> c;
    tile::PreparedRaster raster;
    BatchedTiles work;
    int k;
  };
  struct SharedStorage {
    SharedArray<T, kStages * StageA::kElements, 1024> a;
    SharedArray<T, kStages * StageB::kElements, 1024> b;
    SharedArray<T, kConsumerThreads / 32 * Store::kElements, 1024> c;
    tile::Pipeline<kStages> pipeline;
  };
  static_assert(sizeof(SharedStorage) <= 227 * 1024 / kShape.blocks, "shared memory of a block");

  template <class F>
  __device__ __forceinline__ static void for_each_tile(const Arguments& g, F&& f) {
    g.work.for_each(static_cast<int>(block_index()), static_cast<int>(grid_blocks()),
                    [&](const BatchedPart& part) {
                      const tile::TileIndex at = g.raster.at(part.tile);
                      f(part, at.m * kTileM, at.n * kTileN);
                    });
  }

  // A stage. Loads are under way while it is waited for.
  template <bool kLast, bool kInside>
  __device__ __forceinline__ static void shift(SharedStorage& shared, TileA& a, TileB& b,
                                               const Position& at, int k) {
    T* const to_a = shared.a.pointer(at.stage * StageA::kElements);
    T* const to_b = shared.b.pointer(at.stage * StageB::kElements);
#pragma unroll
    for (int i = 0; i < TileA::kPasses; ++i) a.template load<kInside>(i, k);
#pragma unroll
    for (int i = 0; i < TileB::kPasses; ++i) b.template load<kInside>(i, k);
    shared.pipeline.wait_free(at);
#pragma unroll
    for (int i = 0; i < TileA::kPasses; ++i) a.template store<kLast>(to_a, i, k);
#pragma unroll
    for (int i = 0; i < TileB::kPasses; ++i) b.template store<kLast>(to_b, i, k);
    if constexpr (!kInside) {
      a.store_elements(to_a, k);
      b.store_elements(to_b, k);
    }
  }

  // A thread of the loaders.
  __device__ __forceinline__ static void load(SharedStorage& shared, const Arguments& g,
                                              int thread) {
    TileA a(g.a, thread);
    TileB b(g.b, thread);
    const auto prefetch = [&](int place) {
      if (thread != 0 || place >= g.work.tiles) return;
      const BatchedPart part = g.work.part(place);
      const tile::TileIndex tile = g.raster.at(part.tile);
      a.prefetch(part.matrix.a, tile.m * kTileM);
      b.prefetch(part.matrix.b, tile.n * kTileN);
    };
    const auto blocks = static_cast<int>(grid_blocks());
    if (g.work.steps > 1) prefetch(static_cast<int>(block_index()));
    Position at;
    for_each_tile(g, [&](const BatchedPart& part, int row, int column) {
      a.begin(part.matrix.a, row);
      b.begin(part.matrix.b, column);
      for (int k = 0; k < g.k; k += kTileK, at.advance()) {
        if (!a.is_inside(k) || !b.is_inside(k)) {
          shift<true, false>(shared, a, b, at, k);
        } else if (k + kTileK > g.k) {
          shift<true, true>(shared, a, b, at, k);
        } else {
          shift<false, true>(shared, a, b, at, k);
        }
        ptx::fence_proxy_async();
        ptx::syncwarp();
        if (lane_index() == 0) shared.pipeline.fill(at.stage);
        if (k == 0) prefetch(part.place + blocks);
      }
    });
  }

  // A warpgroup: multiplies its rows of every tile and stores them.
  __device__ __forceinline__ static void multiply(SharedStorage& shared, const Arguments& g,
                                                  int warp) {
    const int consumer = warp / 4;
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    ptx::WgmmaSum<T> sum[kRowBlocks][kTileN / 2] = {};
    for_each_tile(g, [&](const BatchedPart& part, int row, int column) {
      multiply_stages<StageA, StageB>(sum, shared.a.pointer(), shared.b.pointer(), shared.pipeline,
                                      at, part.last, consumer * kRowBlocks, [&](int stage) {
                                        if (lane_index() == 0) shared.pipeline.release(stage);
                                      });
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
        const int first_row = row + (consumer * kRowBlocks + i) * 64 + warp % 4 * Store::kRows;
        if (first_row >= g.c.rows) continue;
        T* const of_row = g.c.data + part.matrix.c * g.c.batch + first_row * g.c.leading;
#pragma unroll
        for (int j = 0; j < kTileN; j += Store::kColumns) {
          if (column + j >= g.c.columns) continue;
          store.write_words(of_row + column + j, g.c.leading, g.c.rows - first_row,
                            g.c.columns - column - j, &sum[i][j / 2]);
        }
      }
    });
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
      shared.pipeline.init(kConsumerThreads / 32, kShape.loaders);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp < kConsumerThreads / 32) {
      multiply(shared, g, warp);
    } else {
      load(shared, g, thread_index() - kConsumerThreads);
    }
  }

  static void run(const BatchedCall& call, int multiprocessors, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM, kTileN);
    const auto steps = static_cast<int>(divide_up(call.k, kTileK));
    const auto work = BatchedTiles::of(call, raster.count(), steps);
    launch<BatchedShiftedKernel>(
        {.blocks = std::min(work.tiles, multiprocessors * kMinBlocks), .threads = kThreads}, stream,
        {ShiftedOperand<T>::of(call, call.a), ShiftedOperand<T>::of(call, call.b),
         BatchedPlainOutput<T>::template of<Store>(call), raster, work, static_cast<int>(call.k)});
  }
};

// Instantiated beside the rung's row, for tests to call.
template <class T>
void run_batched_shifted(const BatchedCall& call, bool small, int multiprocessors, Stream stream) {
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    small ? BatchedShiftedKernel<T, kA, kB, kShiftedSmall>::run(call, multiprocessors, stream)
          : BatchedShiftedKernel<T, kA, kB, kShiftedLarge>::run(call, multiprocessors, stream);
  });
}
extern template void run_batched_shifted<half>(const BatchedCall&, bool, int, Stream);
extern template void run_batched_shifted<bf16>(const BatchedCall&, bool, int, Stream);

struct BatchedShifted {
  static bool supports(const BatchedCall& call, Why& why) {
    return is_of_one_dtype(call, why) && why.unless(call.k > 0, "K = 0 leaves nothing to load") &&
           runs_supported(call, why) &&
           // A walk of the tiles ends up to a wave beyond the last.
           fits_grid(call, 2 * divide_up(call.m, 64) * divide_up(call.n, 64), why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    const bool small = shifted_time(call, kShiftedSmall) < shifted_time(call, kShiftedLarge);
    with_type<kHalves>(call.dtype, [&]<class T>() {
      run_batched_shifted<T>(call, small, multiprocessors, context.stream);
    });
  }
};

}  // namespace ws::gemm
