// The operands of a warp's mma.sync, from swizzled tiles in shared memory into registers.
#pragma once

#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/tile/staged_copy.hpp"

namespace ws::tile {

// One K step of 16 of a warp's part of a tile: kRows rows of A times kColumns columns of B, added
// up in Accumulator: float, or half where T is.
template <class T, int kRows, int kColumns, class Accumulator = float>
struct MmaFragments {
  static constexpr int kDown = kRows / 16;
  static constexpr int kAcross = kColumns / 8;
  static_assert(kRows % 16 == 0 && kColumns % 16 == 0);
  // Of a product of 16 x 8: four floats, or two pairs.
  using Register = std::conditional_t<std::is_same_v<Accumulator, float>, float, uint32_t>;
  using Sums = Register[kDown][kAcross][sizeof(Accumulator)];

  // What ldmatrix wants from this lane: a run of 8 elements, at these offsets in the tiles for row
  // `row`, column `column` and K step 0.
  template <class TileA, bool kARunsAlongK, class TileB, bool kBRunsAlongK>
  struct LaneOffsets {
    __device__ __forceinline__ LaneOffsets(int row, int column)
        : a(offset<TileA, kARunsAlongK>(row + lane_index() / 8 % 2 * 8, lane_index() / 16 * 8)),
          b(offset<TileB, kBRunsAlongK>(column + lane_index() / 16 * 8, lane_index() / 8 % 2 * 8)) {
    }
    // For rows or columns `outer` and K step `k` further on: multiples of 16, below 64 (along a run
    // of a power of two that begins at `row` or `column` 0: below its length).
    __device__ __forceinline__ int a_at(int outer, int k) const {
      return kARunsAlongK ? TileA::further(a + outer * TileA::kPitch, k)
                          : TileA::further(a + k * TileA::kPitch, outer);
    }
    __device__ __forceinline__ int b_at(int outer, int k) const {
      return kBRunsAlongK ? TileB::further(b + outer * TileB::kPitch, k)
                          : TileB::further(b + k * TileB::kPitch, outer);
    }
    int a;
    int b;
  };

  // Part `part` of kDown, so that loads can lie between products, of K step `k` of a stage's tiles.
  template <class TileA, bool kARunsAlongK, class TileB, bool kBRunsAlongK>
  __device__ __forceinline__ void load(
      int part, SharedSpan<T> tile_a, SharedSpan<T> tile_b,
      const LaneOffsets<TileA, kARunsAlongK, TileB, kBRunsAlongK>& lane, int k WS_AND_PLACE) {
    load_a(part, tile_a, lane, k WS_PASS_AND_PLACE);
    load_b(part, tile_b, lane, k WS_PASS_AND_PLACE);
  }

  // The same of one operand, where the other is in registers already.
  template <class TileA, bool kARunsAlongK, class TileB, bool kBRunsAlongK>
  __device__ __forceinline__ void load_a(
      int part, SharedSpan<T> tile_a,
      const LaneOffsets<TileA, kARunsAlongK, TileB, kBRunsAlongK>& lane, int k WS_AND_PLACE) {
    // Where runs lie along the other dimension, the 8 x 8 matrices are transposed on the way.
    ptx::ldmatrix_x4<!kARunsAlongK>(a[part],
                                    tile_a.pointer(lane.a_at(part * 16, k)) WS_PASS_AND_PLACE);
  }
  template <class TileA, bool kARunsAlongK, class TileB, bool kBRunsAlongK>
  __device__ __forceinline__ void load_b(
      int part, SharedSpan<T> tile_b,
      const LaneOffsets<TileA, kARunsAlongK, TileB, kBRunsAlongK>& lane, int k WS_AND_PLACE) {
#pragma unroll
    for (int j = part * 2; j < kAcross; j += kDown * 2) {
      uint32_t pair[4];
      ptx::ldmatrix_x4<!kBRunsAlongK>(pair, tile_b.pointer(lane.b_at(j * 8, k)) WS_PASS_AND_PLACE);
      b[j][0] = pair[0];
      b[j][1] = pair[1];
      b[j + 1][0] = pair[2];
      b[j + 1][1] = pair[3];
    }
  }

  // Adds the products, part by part; before(part) comes before each.
  template <class Before>
  __device__ __forceinline__ void multiply_add(Sums& sums, Before&& before WS_AND_PLACE) const {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      before(i);
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        ptx::mma_m16n8k16<T>(sums[i][j], a[i], b[j], sums[i][j] WS_PASS_AND_PLACE);
      }
    }
  }

  __device__ __forceinline__ void multiply_add(Sums& sums WS_AND_PLACE) const {
    multiply_add(sums, [](int) {} WS_PASS_AND_PLACE);
  }

  // Where the sums of this lane belong in the warp's part: f(row, column, sum of that column, sum
  // of the next).
  template <class F>
  __device__ __forceinline__ static void for_each_pair(const Sums& sums, F&& f) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const int row = i * 16 + lane_index() / 4;
        const int column = j * 8 + lane_index() % 4 * 2;
        if constexpr (std::is_same_v<Accumulator, float>) {
          f(row, column, sums[i][j][0], sums[i][j][1]);
          f(row + 8, column, sums[i][j][2], sums[i][j][3]);
        } else {
          const auto above = std::bit_cast<Vec<Accumulator, 2>>(sums[i][j][0]);
          const auto below = std::bit_cast<Vec<Accumulator, 2>>(sums[i][j][1]);
          f(row, column, to_float(above[0]), to_float(above[1]));
          f(row + 8, column, to_float(below[0]), to_float(below[1]));
        }
      }
    }
  }

  uint32_t a[kDown][4];
  uint32_t b[kAcross][2];

 private:
  template <class Tile, bool kRunsAlongK>
  __device__ __forceinline__ static int offset(int outer, int inner) {
    const int i = lane_index() % 8;
    return kRunsAlongK ? Tile::offset(outer + i, inner) : Tile::offset(inner + i, outer);
  }
};

}  // namespace ws::tile
