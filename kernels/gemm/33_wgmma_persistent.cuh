// Idea: blocks stay. One for each SM, which takes tile after tile, so that the thread that copies
//   has filled the stages of the next tile before this one is stored.
// From wgmma_wide: barriers are set up once, and the products of a tile begin at once: its first
//   copies have flown under the stores of the one before. The tiles are dealt in the bands' order,
//   as the GPU dealt the blocks.
// Traffic: as wgmma_wide.
// Limits: as wgmma_tile. The tensor cores still rest while C is stored.
#pragma once

#include "kernels/gemm/32_wgmma_wide.cuh"

namespace ws::gemm {

struct BlockAnSm : BlockATile {
  static int count(const tile::Raster& raster, int multiprocessors) {
    return std::min(raster.count(), multiprocessors);
  }

  template <class F>
  __device__ __forceinline__ static void for_each_tile(const tile::Raster& raster, F&& f) {
    const auto blocks = static_cast<int>(grid_blocks());
    for (auto i = static_cast<int>(block_index()); i < raster.count(); i += blocks) {
      f(raster.at(i));
    }
  }
};

inline constexpr Rung kWgmmaPersistent =
    rung_of<WgmmaRoles<kWgmmaWideShape, BlockAnSm>, kHalves, Gemm>({
        .name = "wgmma_persistent",
        .from = "wgmma_wide",
        .idea = "a block an SM stays: the next tile is copied while this one is stored",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::gemm
