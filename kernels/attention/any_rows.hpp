// Rows of q, k or v by any strides, read four columns at a time: in one access where they allow it.
#pragma once

#include "kernels/attention/operations.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::attention {

struct AnyRows : Heads {
  bool by_four;  // four neighbours of a row, from a multiple of four on, are one access

  template <class T>
  static AnyRows of(const Heads& heads) {
    const auto is_whole = [](int64_t elements) { return elements % 4 == 0; };
    return {heads, heads.column == 1 && is_whole(heads.batch) && is_whole(heads.head) &&
                       is_whole(heads.row) &&
                       reinterpret_cast<uintptr_t>(heads.data) % (4 * sizeof(T)) == 0};
  }

#if WS_DEVICE_CODE
  // Columns d ... d + 3 of a row of `count`, zeros beyond it.
  template <class T>
  __device__ __forceinline__ Vec<float, 4> four(const T* from, int d,
                                                int count WS_AND_PLACE) const {
    if (by_four && d + 4 <= count) {
      return thread::convert<float>(thread::load<4>(from + d WS_PASS_AND_PLACE));
    }
    Vec<float, 4> four{};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (d + e < count) {
        four[e] = to_float(thread::load(from + (d + e) * column WS_PASS_AND_PLACE));
      }
    }
    return four;
  }
#endif
};

}  // namespace ws::attention
