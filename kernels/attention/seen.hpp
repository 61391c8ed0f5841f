// Which keys the queries of a sequence see, by causal and windows: a range of each query, which
// neither end of moves back from a query to the next.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::attention {

// What several queries see: some of them the keys from `first` on and before `end`, all of them
// those from whole_first on and before whole_end.
struct alignas(16) SeenTogether {
  int first, end;
  int whole_first, whole_end;
};

// Int: of 32 bits where sequences are shorter than 2^29 and so are windows.
template <class Int>
struct Seen {
  Int offset;  // query i stands over key i + offset
  Int keys;
  Int left, right;  // of the window; negative: all of that side

  // Of query `row`: first <= j < end.
  __host__ __device__ __forceinline__ Int first(Int row) const {
    return left < 0 || row + offset < left ? 0 : row + offset - left;
  }
  __host__ __device__ __forceinline__ Int end(Int row) const {
    if (right < 0) return keys;
    const Int end = row + offset + right + 1;
    return end < 0 ? 0 : end < keys ? end : keys;
  }
  // Of rows row ... last.
  __host__ __device__ __forceinline__ SeenTogether together(Int row, Int last) const {
    return {first(row), end(last), first(last), end(row)};
  }
};

}  // namespace ws::attention
