// Where copies begin, written down once a block in shared memory.
#pragma once

#include "kernels/upsample/images.hpp"
#include "warpsmith/shared.hpp"

namespace ws::upsample {

// Of so many rows of dx from `first` on, counted in all planes, the first copies in all planes of
// grad; behind the last the first that is no copy of it. `height`: rows of a plane of dx.
__device__ __forceinline__ void find_row_starts(SharedSpan<int> starts, const Axis& axis,
                                                const thread::Divider& height, int first,
                                                int rows) {
  for (int i = thread_index(); i <= rows; i += block_threads()) {
    const auto row = static_cast<uint32_t>(first + i);
    const uint32_t plane = height.quotient(row);
    const int64_t start = axis.first_of(row - plane * height.divisor());
    starts[i] = static_cast<int>(plane * axis.to + start);
  }
}
// The same of the `from` columns of dx, which have `to` copies in a row of grad: a copy is the
// first of its own source, and of those that none copies, behind the one before.
__device__ __forceinline__ void find_column_starts(SharedSpan<uint16_t> starts,
                                                   const ShortAxis& axis, int from, int to) {
  for (int i = thread_index(); i <= to; i += block_threads()) {
    const int before = i > 0 ? axis.source(i - 1) : -1;
    const int here = i < to ? axis.source(i) : from;
#pragma unroll 1
    for (int column = before + 1; column <= here; ++column) {
      starts[column] = static_cast<uint16_t>(i);
    }
  }
}

}  // namespace ws::upsample
