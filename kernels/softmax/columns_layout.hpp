// ColumnsLayout: where the rows of a call lie side by side.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/softmax/operations.hpp"

namespace ws::softmax {

// The rows of a call as columns of matrices, of each operand: those of a matrix lie side by side.
struct ColumnsLayout {
  int64_t matrices = 1;
  int64_t columns = 1;                      // of a matrix
  std::array<int64_t, 3> matrix_strides{};  // from matrix to matrix
  bool valid = false;

  static ColumnsLayout of(const RowLayout<3>& rows) {
    struct Loop {
      int64_t extent = 1;
      std::array<int64_t, 3> strides{};
    };
    std::array<Loop, RowLayout<3>::kMaxOuter> loops{};
    const auto count = static_cast<size_t>(rows.outer);
    const auto operands = static_cast<size_t>(rows.operands);
    for (size_t d = 0; d < count; ++d) {
      loops[d].extent = rows.extents[d];
      for (size_t k = 0; k < operands; ++k) loops[d].strides[k] = rows.strides[k][d];
    }
    // The order of rows does not matter: the widest steps come first, whatever dimensions they are.
    std::sort(loops.begin(), loops.begin() + rows.outer,
              [](const Loop& a, const Loop& b) { return a.strides[0] > b.strides[0]; });
    size_t kept = 0;
    for (size_t d = 0; d < count; ++d) {
      const auto follows = [&](size_t k) {
        return loops[kept - 1].strides[k] == loops[d].strides[k] * loops[d].extent;
      };
      bool even = kept > 0;
      for (size_t k = 0; k < operands && even; ++k) even = follows(k);
      if (even) loops[d].extent *= loops[kept - 1].extent;
      loops[even ? kept - 1 : kept++] = loops[d];
    }
    ColumnsLayout layout;
    if (kept < 1 || kept > 2) return layout;
    const Loop& inner = loops[kept - 1];
    layout.columns = inner.extent;
    layout.valid = true;
    for (size_t k = 0; k < operands; ++k) layout.valid = layout.valid && inner.strides[k] == 1;
    if (kept == 2) {
      layout.matrices = loops[0].extent;
      layout.matrix_strides = loops[0].strides;
    }
    return layout;
  }
  // Whether every column of every row starts an access of `width` elements.
  bool aligned(const RowLayout<3>& rows, int width) const {
    bool all = columns % width == 0;
    for (size_t k = 0; static_cast<int>(k) < rows.operands; ++k) {
      all = all && misaligned(rows, k, width) == 0 && rows.inner[k] % width == 0 &&
            matrix_strides[k] % width == 0;
    }
    return all;
  }
};

}  // namespace ws::softmax
