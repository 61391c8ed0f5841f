// The order in which a grid walks the tiles of an output matrix.
#pragma once

#include "warpsmith/device.hpp"
#include "warpsmith/thread/divide.hpp"

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

#if WS_DEVICE_CODE
// The same with its divisions prepared by the host: for kernels in which nothing is under way yet
// when the first tile is looked up.
class PreparedRaster {
 public:
  PreparedRaster() = default;
  PreparedRaster(const Raster& raster)
      : raster_(raster),
        band_(int64_t{raster.group} * raster.tiles_n),
        rows_(raster.group),
        last_rows_((raster.tiles_m - 1) % raster.group + 1) {}

  __host__ __device__ __forceinline__ TileIndex at(int index) const {
    const auto band = static_cast<int>(band_.quotient(static_cast<uint32_t>(index)));
    const int first = band * raster_.group;
    const bool last = raster_.tiles_m - first <= raster_.group;
    const thread::Divider& rows = last ? last_rows_ : rows_;
    const int within = index - first * raster_.tiles_n;
    const auto column = static_cast<int>(rows.quotient(static_cast<uint32_t>(within)));
    const int row = within - column * static_cast<int>(rows.divisor());
    return {first + row, band % 2 == 0 ? column : raster_.tiles_n - 1 - column};
  }
  __host__ __device__ __forceinline__ const Raster& raster() const { return raster_; }

 private:
  Raster raster_;
  thread::Divider band_, rows_, last_rows_;
};
#endif

// Where to begin a tile of `size` rows that should begin at `first` and hangs over the edge:
// further up, by a multiple of `piece`, so that less than a piece is outside. The rows from there
// to `first` are another tile's. For the copy engine: rows outside a tensor, which it fills with
// zeros, cost an H200 more time than rows inside.
__host__ __device__ constexpr int pulled_in(int first, int size, int extent, int piece) {
  const int outside = first + size - extent;
  if (outside <= 0) return first;
  const int up = outside / piece * piece;
  return up < first ? first - up : 0;
}

}  // namespace ws::tile
