// Idea: a block takes a square of 16 x 16 elements: what its lanes scatter, its warps gather again.
// From row2col: sectors that are read (or written) in parts are whole after 16 rows of one block,
//   and no index needs a division of 64 bits.
// Traffic: pieces of 16 elements on both sides; those of the strided side are put together in the
//   L1 (reads) or the L2 (writes).
// Limits: one dense matrix.
#pragma once

#include "kernels/transpose/02_row2col.cuh"
#include "kernels/transpose/tiles.hpp"

namespace ws::transpose {

// Along which tensor's rows neighbouring lanes stand: x's (col2row), or y's (row2col).
enum class Side : uint8_t { kX, kY };

#if WS_DEVICE_CODE
template <class T, Side kSide, bool kDiagonal>
struct Blocks2dKernel {
  static constexpr int kTile = 16;
  static constexpr int kThreads = kTile * kTile;
  struct Arguments {
    MatrixArguments<T> matrix;
    Tiles tiles;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const MatrixArguments<T>& m = a.matrix;
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t down = block / a.tiles.across;
    uint32_t across = block % a.tiles.across;
    if constexpr (kDiagonal) across = (across + down) % a.tiles.across;
    const int fast = thread_index() % kTile;
    const int slow = thread_index() / kTile;
    const int64_t row = int64_t{down} * kTile + (kSide == Side::kX ? slow : fast);
    const int64_t column = int64_t{across} * kTile + (kSide == Side::kX ? fast : slow);
    if (row >= m.rows || column >= m.columns) return;
    thread::store(m.y + column * m.rows + row, thread::load(m.x + row * m.columns + column));
  }
};

template <Side kSide, bool kDiagonal>
struct Blocks2d {
  static bool supports(const Permutation& call, Why& why) { return is_matrix(call, why); }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = Blocks2dKernel<T, kSide, kDiagonal>;
      const Tiles tiles(matrices_of(call), Kernel::kTile, Kernel::kTile);
      launch<Kernel>({.blocks = tiles.count(), .threads = Kernel::kThreads}, context.stream,
                     {MatrixArguments<T>(call), tiles});
    });
  }
};

inline constexpr Seed kCol2row2dSeeds[] = {{"{}_f32_col2row2d", {}, {DType::kF32}}};
inline constexpr Rung kCol2row2d = rung_of<Blocks2d<Side::kX, false>, Transpose>({
    .name = "col2row_2d",
    .from = "col2row",
    .idea = "a block a square of 16 x 16, lanes along x's rows",
    .seeds = kCol2row2dSeeds,
    .file = "03_blocks_2d.cuh",
});

inline constexpr Seed kRow2col2dSeeds[] = {{"{}_f32_row2col2d", {}, {DType::kF32}}};
inline constexpr Rung kRow2col2d = rung_of<Blocks2d<Side::kY, false>, Transpose>({
    .name = "row2col_2d",
    .from = "row2col",
    .idea = "a block a square of 16 x 16, lanes along y's rows",
    .seeds = kRow2col2dSeeds,
    .file = "03_blocks_2d.cuh",
});
#endif

}  // namespace ws::transpose
