// A block's piece of a list of tensors.
#pragma once

#include "kernels/optimizer/update.hpp"
#include "warpsmith/device_error.hpp"

#if WS_DEVICE_CODE
namespace ws::optimizer {

template <class T>
struct Piece {
  T* param;
  const T* grad;
  T* exp_avg;
  T* exp_avg_sq;
  int64_t elements;  // 0 of one that lies outside of memory, which is reported

  // Row `row` of the table: every thread of a block reads the same words.
  __device__ __forceinline__ Piece(const ManyCall& call, int64_t row, const IndexCheck& check) {
    T* const memory = static_cast<T*>(call.memory);
    const int64_t memory_elements = call.elements;
    const int64_t* const pieces = call.pieces + row * call.row_stride;
    const int64_t first = row * kPieceColumns;
    int64_t words[kPieceColumns] = {};
#pragma unroll
    for (int k = 0; k < kPieceColumns; ++k)
      words[k] = thread::load(pieces + k * call.column_stride);
    elements = words[kPieceElements];
    bool inside = elements >= 0 && elements <= memory_elements;
#pragma unroll
    for (int k = 0; k < kOperands; ++k) {
      inside = inside && words[k] >= 0 && words[k] <= memory_elements - elements;
    }
    if (!inside) {
      // The first that is wrong: the size, else a start.
      if (check.below(memory_elements + 1)(elements, first + kPieceElements)) {
        for (int k = 0; k < kOperands; ++k) {
          if (!check.below(memory_elements - elements + 1)(words[k], first + k)) break;
        }
      }
      elements = 0;
    }
    T* starts[kOperands] = {};
#pragma unroll
    for (int k = 0; k < kOperands; ++k) starts[k] = memory + words[k] * call.stride;
    param = starts[kParam];
    grad = starts[kGrad];
    exp_avg = starts[kExpAvg];
    exp_avg_sq = starts[kExpAvgSq];
  }
};

}  // namespace ws::optimizer
#endif
