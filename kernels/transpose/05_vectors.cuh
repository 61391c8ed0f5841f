// Idea: four elements a thread, one access on the side where they lie side by side.
// From col2row, row2col: a quarter of the instructions on that side; on the other side lanes are
//   now four rows apart, so that neighbours of a sector are asked for by other lanes.
// Traffic: as before; 16 bytes an access of 4-byte elements.
// Limits: one dense matrix, columns (col2row) or rows (row2col) in fours.
#pragma once

#include "kernels/transpose/03_blocks_2d.cuh"

namespace ws::transpose {

#if WS_DEVICE_CODE
// Element (row, column) and the three after it, along x's rows or along y's.
template <Side kSide, class T>
__device__ __forceinline__ void transpose_four(const MatrixArguments<T>& m, int64_t row,
                                               int64_t column) {
  const T* x = m.x + row * m.columns + column;
  T* y = m.y + column * m.rows + row;
  if constexpr (kSide == Side::kX) {
    const Vec<T, 4> four = thread::load<4>(x);
#pragma unroll
    for (int i = 0; i < 4; ++i) thread::store(y + i * m.rows, four[i]);
  } else {
    Vec<T, 4> four;
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = thread::load(x + i * m.columns);
    thread::store(y, four);
  }
}

template <class T, Side kSide>
struct VectorsKernel {
  static constexpr int kThreads = 256;
  using Arguments = MatrixArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = (block_index() * kThreads + thread_index()) * 4;
    if (i >= a.rows * a.columns) return;
    if constexpr (kSide == Side::kX) {
      transpose_four<kSide>(a, i / a.columns, i % a.columns);
    } else {
      transpose_four<kSide>(a, i % a.rows, i / a.rows);
    }
  }
};

template <Side kSide>
bool takes_fours(const Permutation& call, Why& why) {
  if (!is_matrix(call, why)) return false;
  return kSide == Side::kX ? has_whole_columns(call, 4, why) : has_whole_rows(call, 4, why);
}

template <Side kSide>
struct Vectors {
  static bool supports(const Permutation& call, Why& why) { return takes_fours<kSide>(call, why); }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = VectorsKernel<T, kSide>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements(), 4 * Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, MatrixArguments<T>(call));
    });
  }
};

inline constexpr Seed kCol2rowX4Seeds[] = {{"{}_f32x4_col2row", {}, {DType::kF32}}};
inline constexpr Rung kCol2rowX4 = rung_of<Vectors<Side::kX>, Transpose>({
    .name = "col2row_x4",
    .from = "col2row",
    .idea = "four elements a thread, read by one access",
    .seeds = kCol2rowX4Seeds,
    .file = "05_vectors.cuh",
});

inline constexpr Seed kRow2colX4Seeds[] = {{"{}_f32x4_row2col", {}, {DType::kF32}}};
inline constexpr Rung kRow2colX4 = rung_of<Vectors<Side::kY>, Transpose>({
    .name = "row2col_x4",
    .from = "row2col",
    .idea = "four elements a thread, written by one access",
    .seeds = kRow2colX4Seeds,
    .file = "05_vectors.cuh",
});
#endif

}  // namespace ws::transpose
