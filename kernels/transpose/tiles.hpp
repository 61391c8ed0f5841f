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

#if WS_DEVICE_CODE
  // The same tiles in y's order, of a batch of matrices: what neighbours write lies side by side,
  // which the memory wants more than that what they read does.
  struct Place {
    uint32_t matrix;
    uint32_t row;
    uint32_t column;
  };
  __device__ __forceinline__ Place in_order_of_y(uint32_t number) const {
    const uint32_t line = number / down;
    const uint32_t matrix = line / across;
    return {matrix, number - line * down, line - matrix * across};
  }
#endif
};

}  // namespace ws::transpose
