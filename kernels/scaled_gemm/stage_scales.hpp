// Scales of blocks in shared memory, beside the operands of each stage: brought by warps that
// multiply nothing, read by those that do.
#pragma once

#include "kernels/scaled_gemm/wgmma_parts.hpp"

namespace ws::scaled_gemm {

// Of a tile's rows, and of either half of its columns: 64 that are of one block of B. They need not
// begin at a multiple of 128, where a tile was pulled in at C's edge.
template <int kStages, int kTileM, int kTileN>
struct StageScales {
  static constexpr int kHalves = kTileN / 64;
  static_assert(kTileM % kWarpSize == 0 && kTileN % 64 == 0);

  SharedArray<float, kStages * kTileM> rows;
  SharedArray<float, kStages * kHalves> halves;

  // One of `warps` that take slices in turns, and with them the trips to memory, which are longer
  // than a slice. Each lane says that what it wrote is there.
  template <class Kernel>
  __device__ __forceinline__ static void bring(StageScales& to, tile::Pipeline<kStages>& pipeline,
                                               const typename Kernel::Arguments& g, int warp,
                                               int warps) {
    constexpr int kEach = kTileM / kWarpSize;
    const BlockScales& from = g.c.blocks;
    const int lane = lane_index();
    tile::PipelinePosition<kStages> at;
    int turn = warp;
    Kernel::for_each_part(g, [&](const auto& place, const auto& part) {
      const float* rows[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int row = place.from_row + i * kWarpSize + lane;
        rows[i] = from.a + (row < g.m ? row : g.m - 1) * from.a_row;
      }
      const int column = place.from_column + lane % kHalves * 64;
      const int block = (column < g.n ? column : g.n - 1) / static_cast<int>(kBlock);
      const float* half = from.b + block * from.b_column;
      for (int slice = part.first; slice < part.last; ++slice) {
        if (turn == 0) {
          float of_rows[kEach];
#pragma unroll
          for (int i = 0; i < kEach; ++i) of_rows[i] = thread::load(rows[i]);
          const float of_half = thread::load(half);
          pipeline.wait_free(at);
#pragma unroll
          for (int i = 0; i < kEach; ++i) {
            to.rows[at.stage * kTileM + i * kWarpSize + lane] = of_rows[i];
          }
          if (lane < kHalves) to.halves[at.stage * kHalves + lane] = of_half;
          pipeline.fill(at.stage);
        }
        turn = turn == 0 ? warps - 1 : turn - 1;
#pragma unroll
        for (int i = 0; i < kEach; ++i) rows[i] += from.a_block;
        half += from.b_block;
        at.advance();
      }
    });
  }

  // Those of a thread's sums: of rows `row` and 8 below it.
  struct Scales {
    float rows[2];
    float halves[kHalves];
  };
  __device__ __forceinline__ Scales scales_of(int stage, int row) {
    Scales scales;
#pragma unroll
    for (int i = 0; i < 2; ++i) scales.rows[i] = rows[stage * kTileM + row + i * 8];
#pragma unroll
    for (int i = 0; i < kHalves; ++i) scales.halves[i] = halves[stage * kHalves + i];
    return scales;
  }
};

}  // namespace ws::scaled_gemm
