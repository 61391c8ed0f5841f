// From an element's number, or a vector's, to its place in each tensor of a layout.
#pragma once

#include "kernels/elementwise/layout.hpp"
#include "warpsmith/device.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::elementwise {

template <int kOperands>
struct StridedWalk {
  int rank = 0;
  thread::Divider extents[kMaxRank];          // innermost first
  int64_t strides[kOperands][kMaxRank] = {};  // the same

  StridedWalk() = default;
  // `width` neighbours of the inner loop are one step.
  explicit StridedWalk(const Layout& layout, int64_t width = 1) : rank(layout.rank) {
    for (int loop = 0; loop < rank; ++loop) {
      const auto from = static_cast<size_t>(rank - 1 - loop);
      const int64_t step = loop == 0 ? width : 1;
      extents[loop] = thread::Divider(layout.extents[from] / step);
      for (size_t k = 0; k < kOperands; ++k) strides[k][loop] = layout.strides[k][from] * step;
    }
  }

  // Adds those of step `rest` to `offsets`, elements.
  __device__ __forceinline__ void add(uint32_t rest, int64_t (&offsets)[kOperands]) const {
#pragma unroll
    for (int loop = 0; loop < kMaxRank; ++loop) {
      if (loop == rank) break;
      const uint32_t outer = extents[loop].quotient(rest);
      const uint32_t index = rest - outer * extents[loop].divisor();
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offsets[k] += index * strides[k][loop];
      rest = outer;
    }
  }
};

}  // namespace ws::elementwise
