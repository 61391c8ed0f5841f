// Idea: the copy engine fills the stages. One thread asks for a whole tile by its coordinates, and
//   every warp waits for data, not for the other warps: mbarriers where warp_tile had barriers.
// From warp_tile: no thread computes addresses of copies, holds them, or checks edges; those issue
//   slots and registers go to multiply-adds. Warps drift apart by up to a stage, so that one's
//   loads lie under another's arithmetic.
// Traffic: as warp_tile: M N K (1 / tile_m + 1 / tile_n) elements from L2.
// Limits: sm_90; rows of A and B start at multiples of 16 bytes, the copy engine's rule; K > 0.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/simt_policies.hpp"
#include "kernels/gemm/thread_tile.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::gemm {

template <Contiguous kA, Contiguous kB, class Policy>
struct CopyEngineKernel : Policy {
  static constexpr Arch kArch = Arch::kSm90;
  using Policy::kStages, Policy::kTileK, Policy::kTileM, Policy::kTileN, Policy::kThreads;
  using Tile = ThreadTile<Policy, kA == Contiguous::kColumns, kB == Contiguous::kRows>;
  using TileA = typename Tile::TileA;
  using TileB = typename Tile::TileB;
  using Position = tile::PipelinePosition<kStages>;

  struct Arguments {
    ptx::TensorMap a;
    ptx::TensorMap b;
    float* c;
    int64_t c_leading;
    int m, n;
    tile::Raster raster;
    int blocks_of_k;
    bool c_aligned;  // rows of C, or columns, start at multiples of 16 bytes
  };
  struct SharedStorage {
    SharedArray<float, kStages * TileA::kElements, 1024> a;
    SharedArray<float, kStages * TileB::kElements, 1024> b;
    tile::Pipeline<kStages> pipeline;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()));
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    if (thread_index() == 0) {
      ptx::prefetch_tensor_map(g.a);
      ptx::prefetch_tensor_map(g.b);
      shared.pipeline.init(Policy::kWarps);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();

    // The first warp copies, between its own products: a warp for copies alone would cost as many
    // registers as one that multiplies.
    const bool copies = warp_index() == 0;
    Position copying;
    int copied = 0;
    const auto copy_next = [&] {
      if (copied == g.blocks_of_k) return;
      if (ptx::elect_sync()) {
        ptx::Mbarrier& full = shared.pipeline.acquire(copying, Policy::kStageElements * 4);
        const int k = copied * kTileK;
        load<TileA>(shared.a.pointer(copying.stage * TileA::kElements), g.a, full, row, k);
        load<TileB>(shared.b.pointer(copying.stage * TileB::kElements), g.b, full, column, k);
      }
      ptx::syncwarp();
      ++copied;
      copying.advance();
    };
    if (copies) {
      for (int stage = 0; stage < kStages - 2; ++stage) copy_next();
    }

    Tile product;
    Position at;
    for (int block = 0; block < g.blocks_of_k; ++block) {
      shared.pipeline.wait(at);
      // Into the stage of two tiles ago: in the last one's some warp may still be reading.
      if (copies) copy_next();
      product.multiply_add(shared.a.span(), shared.b.span(), at.stage);
      ptx::syncwarp();
      if (lane_index() == 0) shared.pipeline.release(at.stage);
      at.advance();
    }
    const int64_t first =
        Policy::kByColumns ? column * g.c_leading + row : row * g.c_leading + column;
    product.write(g.c + first, g.c_leading, g.m - row, g.n - column, g.c_aligned);
  }

  // A tile from `outer` of the matrix's rows (of B: columns) and k on.
  template <class Operand>
  __device__ __forceinline__ static void load(float* stage, const ptx::TensorMap& map,
                                              ptx::Mbarrier& full, int outer, int k) {
    ptx::tensor_load_2d(stage, map, full, Operand::kRunsAlongK ? k : outer,
                        Operand::kRunsAlongK ? outer : k);
  }
  template <class Operand>
  static ptx::TensorMap tensor_map(const Matrix& matrix) {
    return ptx::make_tensor_map_2d(matrix.as<const float>(), matrix.runs, matrix.length,
                                   matrix.leading, Operand::kRuns, Operand::kRunLength,
                                   Operand::kSwizzle);
  }

  static void run(const Call& call, Stream stream) {
    const tile::Raster raster = Policy::raster(call);
    launch<CopyEngineKernel>({.blocks = raster.count(), .threads = kThreads}, stream,
                             {.a = tensor_map<TileA>(call.a),
                              .b = tensor_map<TileB>(call.b),
                              .c = call.c.as<float>(),
                              .c_leading = call.c.leading,
                              .m = static_cast<int>(call.m),
                              .n = static_cast<int>(call.n),
                              .raster = raster,
                              .blocks_of_k = static_cast<int>(divide_up(call.k, kTileK)),
                              .c_aligned = alignment_of(call.c, call.dtype) == 16});
  }
};

struct CopyEngine {
  static bool supports(const Call& call, Why& why) { return operands_can_be_copied(call, why); }
  static void run(const Call& call, const Context& context) {
    with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
      if (!choose_big<CopyEngineBig, CopyEngineSmall>(call, device_facts().multiprocessors)) {
        CopyEngineKernel<kA, kB, CopyEngineSmall>::run(call, context.stream);
      } else if constexpr (kA == Contiguous::kColumns && kB == Contiguous::kColumns) {
        // C^T = B^T A^T: what a lane keeps for many products then runs along the tile's rows.
        CopyEngineKernel<Contiguous::kRows, Contiguous::kRows, CopyEngineTurned>::run(
            transposed(call), context.stream);
      } else {
        CopyEngineKernel<kA, kB, CopyEngineBig>::run(call, context.stream);
      }
    });
  }
};

}  // namespace ws::gemm
