// What the rungs of bmm share.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/ptx/tensor_map.hpp"

namespace ws::gemm {

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

// How many there are of an operand.
inline int64_t matrices_of_operand(const Call& /*call*/, const Matrix& /*matrix*/) { return 1; }
inline int64_t matrices_of_operand(const BatchedCall& call, const Matrix& matrix) {
  return matrix_batch(call, matrix).count;
}

}  // namespace ws::gemm
