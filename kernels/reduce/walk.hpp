// Walk: from an element's number in a nest of loops to its place in memory.
#pragma once

#include "kernels/reduce/operations.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::reduce {

struct Walk {
  int loops = 0;
  bool wide = false;                   // over 2^31 elements: plain division, 64 bits of it
  thread::Divider dividers[kMaxRank];  // innermost first, as the rest
  int64_t extents[kMaxRank];
  int64_t strides[kMaxRank][2];

  Walk() = default;
  Walk(const std::array<Loop, kMaxRank>& nest, int count, int64_t elements)
      : loops(count), wide(elements >= int64_t{1} << 31) {
    for (int i = 0; i < count; ++i) {
      const Loop& loop = nest[static_cast<size_t>(count - 1 - i)];
      extents[i] = loop.extent;
      if (!wide && loop.extent > 0) dividers[i] = thread::Divider(loop.extent);
      strides[i][0] = loop.strides[0];
      strides[i][1] = loop.strides[1];
    }
  }

  struct Place {
    int64_t at[2];
  };
  __device__ __forceinline__ Place operator()(int64_t element) const {
    Place place{};
#pragma unroll
    for (int i = 0; i < kMaxRank; ++i) {
      if (i >= loops) break;
      int64_t outer = 0;  // the outermost loop takes what is left
      if (i + 1 < loops) {
        outer = wide ? element / extents[i] : dividers[i].quotient(static_cast<uint32_t>(element));
      }
      const int64_t step = element - outer * extents[i];
      place.at[0] += step * strides[i][0];
      place.at[1] += step * strides[i][1];
      element = outer;
    }
    return place;
  }
};

}  // namespace ws::reduce
#endif
