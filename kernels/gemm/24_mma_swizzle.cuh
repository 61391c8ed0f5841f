// Idea: no padding. The 16-byte chunks of a row change places by the row's number, so that the
//   eight rows that ldmatrix reads lie in different banks, and a row's 128 bytes in one line.
// From mma_stages: no byte of shared memory is lost, and a stage is 64 of K at half the barriers.
// Traffic: as mma_tile.
// Limits: as mma_stages.
#pragma once

#include "kernels/gemm/23_mma_stages.cuh"

namespace ws::gemm {

// 96 KB, so that two blocks share an SM of Hopper.
struct SwizzledStages {
  template <int kRuns, int kLength>
  using Tile = tile::SwizzledTile<kRuns, kLength>;
  static constexpr int kTileK = 64;
  static constexpr int kCount = 3;
  static constexpr int kBand = 1;
};

inline constexpr Rung kMmaSwizzle = rung_of<MmaStaged<SwizzledStages>, kHalves, Gemm>({
    .name = "mma_swizzle",
    .from = "mma_stages",
    .idea = "rows of 128 bytes whose chunks are permuted: no bank conflicts without padding",
});

}  // namespace ws::gemm
