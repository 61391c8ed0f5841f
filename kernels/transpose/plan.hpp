// Tiles of a permutation: two sides, along the fast loops of x and of y, and a block for each tile.
//
// A side begins with the loop that is fastest in its tensor. Where that has few steps the side goes
// on along the next one, so that tiles of small dimensions are as large as others. The last loop of
// a side may be cut, into parts of so many steps; loops that no side has walk from tile to tile.
#pragma once

#include "kernels/transpose/operations.hpp"

namespace ws::transpose {

// One side of a tile: its loops, innermost first.
struct SidePlan {
  static constexpr size_t kMostLoops = 3;
  size_t loops = 0;
  std::array<Loop, kMostLoops> loop{};  // of the last one, the steps of a whole tile
  int64_t length = 1;                   // elements of a whole tile
  // The last loop, where it is cut: how many steps it has, and which loop walks over its parts.
  int64_t steps = 0;
  int cut = -1;

  const Loop& last() const { return loop[loops - 1]; }
};

struct TilePlan {
  SidePlan columns;  // along x
  SidePlan rows;     // along y
  int64_t run = 1;   // elements that lie side by side in both tensors, at each place of a tile
  size_t loops = 0;  // over tiles, the fastest first
  std::array<Loop, kMaxRank> loop{};
  int64_t tiles = 0;  // 0: one loop is the fastest in both tensors, or nothing is to do
};

// How large sides may be. They are cut at multiples of `piece` steps of their first loops.
struct TileShape {
  int64_t columns;          // wanted
  int64_t longest_columns;  // where rows are few
  int64_t longest_rows;
  int64_t places;  // of the tile
  int64_t piece = 1;
};
TilePlan plan_tiles(const Permutation& call, const TileShape& shape);

// Tiles whose rows, in both tensors, are pieces of 16 bytes: 16 KiB. Rows of x are 128 to 512 bytes
// long, those of y 128 or 256.
struct WideShape {
  int rows;
  int columns;

  static constexpr WideShape of(int element_bytes) {
    const int rows = element_bytes == 8 ? 32 : element_bytes == 4 ? 64 : 128;
    return {rows, 16384 / element_bytes / rows};
  }
};
TileShape wide_shape(int element_bytes);

// Tiles of any elements: what eight blocks of an SM have room for, with offsets of sides of up to
// so many elements.
inline constexpr int64_t kNarrowBytes = 16384;
inline constexpr int64_t kLongestSide = 256;
TileShape narrow_shape(const Permutation& call);

// Tiles of rows that begin anywhere. A row of y is cut where its addresses are multiples of 16, so
// that its part of a tile begins up to 15 bytes before that of another: of the 16 pieces of rows
// that a tile brings, one goes into these differences. Rows of x are 128 to 512 bytes long.
struct RealignedShape {
  static constexpr int kPieces = 16;
  static constexpr int kUsefulPieces = kPieces - 1;  // which it writes, of each row of y

  static constexpr WideShape of(int element_bytes) {
    return {kPieces * 16 / element_bytes, element_bytes <= 2 ? 128 : 64};
  }
  static constexpr int useful_rows(int element_bytes) { return kUsefulPieces * 16 / element_bytes; }
};

struct RealignedPlan {
  int64_t rows = 0;  // of x, of the loop that is the fastest in y
  int64_t columns = 0;
  int64_t x_pitch = 0;
  int64_t y_pitch = 0;
  // Over tiles, the fastest first: parts of rows, then parts of columns and other loops in y's
  // order.
  size_t loops = 0;
  std::array<Loop, kMaxRank> loop{};
  int column_loop = 0;
  int64_t tiles = 0;  // 0: no loop is side by side in x, and another in y, or nothing is to do
};
RealignedPlan plan_realigned(const Permutation& call);

// Tiles of elements that are gathered: rows of y are cut where sectors begin, so that their parts
// of a tile begin up to 31 bytes before its own; so many rows more are brought. H200 2026-11-30: 8
// bytes 94 % of a copy, 4 bytes 90 to 92, others are faster shifted.
struct GatheredShape {
  static constexpr int kCut = 32;
  int rows;  // useful ones
  int columns;
  int threads;
  int blocks;  // of an SM

  static constexpr GatheredShape of(int element_bytes) {
    switch (element_bytes) {
      case 1: return {256, 128, 256, 4};
      case 2: return {128, 128, 256, 5};
      case 4: return {128, 64, 256, 5};
      default: return {64, 64, 512, 3};
    }
  }
};
inline constexpr int64_t kMostRun = 16;

struct GatheredPlan : RealignedPlan {
  int64_t run = 1;  // elements that lie side by side in both tensors, of each row and column
};
GatheredPlan plan_gathered(const Permutation& call);

// The inner loops of a y in one piece that are a piece of x, as many as fit: a window, which moves
// as it is and has its elements in another order.
struct WindowPlan {
  static constexpr int kPiece = 16;        // bytes, which windows of x begin at multiples of
  static constexpr int kMostPieces = 256;  // of a window

  int loops = 0;          // of a window
  int pieces = 0;         // of a window
  int64_t count = 0;      // of windows; 0: there are none
  bool together = false;  // windows of x follow each other as those of y do
};
WindowPlan plan_windows(const Permutation& call);

// What rungs that copy rows of x by whole pieces of 16 bytes ask of a call besides.
bool takes_whole_pieces(const Permutation& call, int64_t tiles, Why& why);

}  // namespace ws::transpose
