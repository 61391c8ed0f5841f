// Idea: a tile of 32 x 32 goes through shared memory: both sides of global memory see whole lines,
//   and the corner is turned where it costs no traffic.
// From col2row_2d_x4, row2col_2d_x4: the tile lies as x does, and is read by columns (col2row), or
//   as y does, and is written by columns (row2col). Either way 32 lanes want one bank.
// Traffic: every byte once, 32 elements at a time; conflicts of 32 ways in shared memory.
// Limits: one dense matrix; columns in fours (col2row).
#pragma once

#include "kernels/transpose/06_vectors_2d.cuh"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::transpose {

#if WS_DEVICE_CODE
// kPitch: elements from row to row of the tile. kMerged: y is written four elements at a time.
template <class T, Side kSide, int kPitch, bool kMerged>
struct SharedTileKernel {
  static constexpr int kTile = 32;
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    MatrixArguments<T> matrix;
    Tiles tiles;
  };
  struct SharedStorage {
    SharedArray<T, kTile * kPitch>
        tile;  // [row, column] where lanes stand along x, else transposed
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const MatrixArguments<T>& m = a.matrix;
    const auto block = static_cast<uint32_t>(block_index());
    const int64_t first_row = int64_t{block / a.tiles.across} * kTile;
    const int64_t first_column = int64_t{block % a.tiles.across} * kTile;
    const int64_t rows = m.rows - first_row;  // that are left, the tile's and more
    const int64_t columns = m.columns - first_column;
    const T* x = m.x + first_row * m.columns + first_column;
    T* y = m.y + first_column * m.rows + first_row;
    const int quad = thread_index() % 8 * 4;
    const int line = thread_index() / 8;

    if constexpr (kSide == Side::kX) {
      if (line < rows && quad < columns) {
        const Vec<T, 4> four = thread::load<4>(x + line * m.columns + quad);
#pragma unroll
        for (int i = 0; i < 4; ++i) shared.tile[line * kPitch + quad + i] = four[i];
      }
    } else {
      const int column = lane_index();
#pragma unroll
      for (int row = warp_index(); row < kTile; row += kWarps) {
        if (row < rows && column < columns) {
          shared.tile[column * kPitch + row] = thread::load(x + row * m.columns + column);
        }
      }
    }
    ptx::barrier_sync();
    if constexpr (kMerged) {
      if (line < columns && quad < rows) {
        Vec<T, 4> four;
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] = shared.tile[line * kPitch + quad + i];
        thread::store(y + line * m.rows + quad, four);
      }
    } else {
      const int row = lane_index();
#pragma unroll
      for (int column = warp_index(); column < kTile; column += kWarps) {
        if (row < rows && column < columns) {
          const T element = kSide == Side::kX ? shared.tile[row * kPitch + column]
                                              : shared.tile[column * kPitch + row];
          thread::store(y + column * m.rows + row, element);
        }
      }
    }
  }
};

template <Side kSide, int kPitch, bool kMerged>
struct SharedTile {
  static bool supports(const Permutation& call, Why& why) {
    return is_matrix(call, why) && (kSide == Side::kY || has_whole_columns(call, 4, why)) &&
           (!kMerged || has_whole_rows(call, 4, why));
  }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = SharedTileKernel<T, kSide, kPitch, kMerged>;
      const Tiles tiles(matrices_of(call), Kernel::kTile, Kernel::kTile);
      launch<Kernel>({.blocks = tiles.count(), .threads = Kernel::kThreads}, context.stream,
                     {MatrixArguments<T>(call), tiles});
    });
  }
};

inline constexpr Seed kSharedCol2rowSeeds[] = {{"{}_f32x4_shared_col2row2d", {}, {DType::kF32}}};
inline constexpr Rung kSharedCol2row = rung_of<SharedTile<Side::kX, 32, false>, Transpose>({
    .name = "shared_col2row",
    .from = "col2row_2d_x4",
    .idea = "a tile in shared memory as x has it, read by columns",
    .seeds = kSharedCol2rowSeeds,
    .file = "07_shared.cuh",
});

inline constexpr Seed kSharedRow2colSeeds[] = {{"{}_f32x4_shared_row2col2d", {}, {DType::kF32}}};
inline constexpr Rung kSharedRow2col = rung_of<SharedTile<Side::kY, 32, false>, Transpose>({
    .name = "shared_row2col",
    .from = "row2col_2d_x4",
    .idea = "a tile in shared memory as y has it, written by columns",
    .seeds = kSharedRow2colSeeds,
    .file = "07_shared.cuh",
});
#endif

}  // namespace ws::transpose
