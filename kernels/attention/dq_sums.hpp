// Sums of dq in memory, to which blocks that own keys add.
#pragma once

#include <cstdint>

#include "warpsmith/device.hpp"

namespace ws::attention {

// dq in f32 while blocks add to it: parts of 64 queries of a head by 64 columns, each in the order
// in which a warpgroup has them in its accumulators, so that a warp adds 512 bytes side by side.
struct DqSums {
  static constexpr int kRows = 64;
  static constexpr int kColumns = 64;
  static constexpr int kPart = kRows * kColumns;
  static constexpr int kStepThreads = 128;        // have four each
  static constexpr int kStepColumns = 8;          // of kRows rows are a step
  static constexpr int kStep = 4 * kStepThreads;  // from four of a lane to its next four

  // Where thread `thread` of a warpgroup has its first four.
  __host__ __device__ __forceinline__ static int64_t at(int64_t row_of_all, int dim, int column,
                                                        int thread) {
    return (row_of_all / kRows * (dim / kColumns) + column / kColumns) * kPart + thread * 4;
  }
};

// Those that a kernel before sets to zero: of rows of `dim`, the first `columns`. None where `sums`
// is null.
struct DqSumsToClear {
  float* sums = nullptr;
  int dim = 0;
  int columns = 0;
};

}  // namespace ws::attention
