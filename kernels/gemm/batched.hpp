// What the rungs of bmm share.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::gemm {

#if WS_DEVICE_CODE
// What becomes of the sum at (row, column) of a product: itself.
struct PlainSum {
  __device__ __forceinline__ float operator()(float sum, int64_t /*product*/, int64_t /*row*/,
                                              int64_t /*column*/) const {
    return sum;
  }
};
#endif

// Whether `blocks` of each product make a grid.
inline bool fits_grid(const BatchedCall& call, int64_t blocks_of_product, Why& why) {
  constexpr int64_t kMost = 0x7FFFFFFF;
  return why.unless(call.batch == 0 || blocks_of_product <= kMost / call.batch, call.batch,
                    " products of ", blocks_of_product, " tiles are more than ", kMost);
}

// A batch of matrices as the copy engine walks it. Of a matrix that all products share there is
// one.
inline ptx::MatrixBatch matrix_batch(const BatchedCall& call, const Matrix& matrix) {
  return {.count = matrix.batch == 0 ? 1 : call.batch, .stride = matrix.batch};
}

// Each product from the other side.
inline BatchedCall transposed(const BatchedCall& call) {
  return {transposed(static_cast<const Call&>(call)), call.batch, call.out_dtype};
}

// How many there are of an operand.
inline int64_t matrices_of_operand(const Call& /*call*/, const Matrix& /*matrix*/) { return 1; }
inline int64_t matrices_of_operand(const BatchedCall& call, const Matrix& matrix) {
  return matrix_batch(call, matrix).count;
}

// Whether the copy engine and the walk of tiles count so far.
inline bool products_can_be_copied(const BatchedCall& call, Why& why) {
  constexpr int64_t kMostBytes = int64_t{1} << 40;
  for (const auto& [name, matrix] : matrices_of(call)) {
    const DType dtype = &matrix == &call.c ? call.out_dtype : call.dtype;
    if (!why.unless(matrix.batch < kMostBytes / static_cast<int64_t>(size_of(dtype)),
                    "products of ", name, " are ", matrix.batch,
                    " elements apart, the copy engine takes less than ", kMostBytes, " bytes")) {
      return false;
    }
  }
  // A walk of the tiles ends up to a wave beyond the last.
  return fits_grid(call, 2 * divide_up(call.m, 128) * divide_up(call.n, 64), why);
}

}  // namespace ws::gemm
