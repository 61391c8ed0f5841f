// What bilinear bands share: rows of f32 in shared memory, four by four. The four elements of a
// column lie side by side, so that one access of 16 bytes serves four rows.
#pragma once

#include <algorithm>

#include "kernels/upsample/images.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::upsample {

inline constexpr int kFour = 4;

// One column in nine is empty: threads that write eight columns each, or four, reach all banks.
class RowsOfFour {
 public:
  __host__ __device__ explicit RowsOfFour(int columns) : pitch_(kFour * (place(columns) + 1)) {}

  __host__ __device__ static constexpr int place(int column) { return column + column / 8; }
  // Of four rows, in floats; behind the last column is room for one more.
  __host__ __device__ int pitch() const { return pitch_; }
  __host__ __device__ int index(int group, int column) const {
    return group * pitch_ + kFour * place(column);
  }
  // Of a block: as many fours of rows as `most` and 32 KiB allow, but one.
  int groups(int64_t most) const {
    constexpr int64_t kMostFloats = 8192;
    return static_cast<int>(
        std::clamp<int64_t>(kMostFloats / pitch_, 1, std::max(most, int64_t{1})));
  }

 private:
  int pitch_;
};

}  // namespace ws::upsample
