// Idea: both: squares of blocks, and four elements a thread.
// From col2row_x4, row2col_x4: a block has 16 x 64 elements, so that the sectors of the strided
//   side are whole again.
// Traffic: lines of 64 elements on one side, pieces of 16 on the other.
// Limits: one dense matrix, columns (col2row) or rows (row2col) in fours.
#pragma once

#include "kernels/transpose/05_vectors.cuh"

namespace ws::transpose {

#if WS_DEVICE_CODE
template <class T, Side kSide>
struct Vectors2dKernel {
  static constexpr int kAcross = 16;  // threads
  static constexpr int kThreads = kAcross * 16;
  static constexpr int kTileRows = kSide == Side::kX ? 16 : 64;
  static constexpr int kTileColumns = kSide == Side::kX ? 64 : 16;
  struct Arguments {
    MatrixArguments<T> matrix;
    Tiles tiles;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const int fast = thread_index() % kAcross * 4;
    const int slow = thread_index() / kAcross;
    const int64_t row =
        int64_t{block / a.tiles.across} * kTileRows + (kSide == Side::kX ? slow : fast);
    const int64_t column =
        int64_t{block % a.tiles.across} * kTileColumns + (kSide == Side::kX ? fast : slow);
    if (row >= a.matrix.rows || column >= a.matrix.columns) return;
    transpose_four<kSide>(a.matrix, row, column);
  }
};

template <Side kSide>
struct Vectors2d {
  static bool supports(const Permutation& call, Why& why) { return takes_fours<kSide>(call, why); }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = Vectors2dKernel<T, kSide>;
      const Tiles tiles(matrices_of(call), Kernel::kTileRows, Kernel::kTileColumns);
      launch<Kernel>({.blocks = tiles.count(), .threads = Kernel::kThreads}, context.stream,
                     {MatrixArguments<T>(call), tiles});
    });
  }
};

inline constexpr Seed kCol2row2dX4Seeds[] = {{"{}_f32x4_col2row2d", {}, {DType::kF32}}};
inline constexpr Rung kCol2row2dX4 = rung_of<Vectors2d<Side::kX>, Transpose>({
    .name = "col2row_2d_x4",
    .from = "col2row_x4",
    .idea = "a block 16 x 64 elements, read four at a time",
    .seeds = kCol2row2dX4Seeds,
    .file = "06_vectors_2d.cuh",
});

inline constexpr Seed kRow2col2dX4Seeds[] = {{"{}_f32x4_row2col2d", {}, {DType::kF32}}};
inline constexpr Rung kRow2col2dX4 = rung_of<Vectors2d<Side::kY>, Transpose>({
    .name = "row2col_2d_x4",
    .from = "row2col_x4",
    .idea = "a block 64 x 16 elements, written four at a time",
    .seeds = kRow2col2dX4Seeds,
    .file = "06_vectors_2d.cuh",
});
#endif

}  // namespace ws::transpose
