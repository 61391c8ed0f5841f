// A matrix cut into tiles.
#pragma once

#include "kernels/transpose/operations.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::transpose {

// They are numbered row by row.
struct Tiles {
  uint32_t across = 1;
  uint32_t down = 1;

  Tiles(const Matrices& m, int tile_rows, int tile_columns)
      : across(static_cast<uint32_t>(divide_up(m.columns, tile_columns))),
        down(static_cast<uint32_t>(divide_up(m.rows, tile_rows))) {}
  int64_t count() const { return int64_t{across} * down; }
};

}  // namespace ws::transpose
