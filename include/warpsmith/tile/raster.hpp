// The order in which a grid walks the tiles of an output matrix.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::tile {

// Which tile: its row and column in the grid of tiles.
struct TileIndex {
  int m;
  int n;
};

// Tiles in groups of `group` tile rows, column by column within a group, the direction turning from
// group to group. The tiles that run at one time then cover a block of the output that is about as
// high as wide: they share rows of A and columns of B in the L2 cache.
struct Raster {
  int tiles_m = 0;
  int tiles_n = 0;
  int group = 1;

  __host__ __device__ constexpr int count() const { return tiles_m * tiles_n; }

  __host__ __device__ constexpr TileIndex at(int index) const {
    const int band = index / (group * tiles_n);
    const int first = band * group;
    const int rows = tiles_m - first < group ? tiles_m - first : group;
    const int within = index - first * tiles_n;
    const int column = within / rows;
    return {first + within % rows, band % 2 == 0 ? column : tiles_n - 1 - column};
  }
};

}  // namespace ws::tile
