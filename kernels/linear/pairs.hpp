// What is added to a product, in pairs of neighbours of a row: so a lane has wgmma's sums.
#pragma once

#include "kernels/linear/operations.hpp"
#include "warpsmith/row/load.hpp"

namespace ws::linear {

// Whether neighbours in a row of what is added are one access, in every matrix of a batch: where
// there are n columns, an even number.
template <class T>
bool lie_in_pairs(const Added& added, int64_t n) {
  const auto strides = static_cast<uint64_t>(added.source.row | added.source.batch) * sizeof(T);
  const uint64_t bits = reinterpret_cast<uintptr_t>(added.source.data) | strides;
  return added.source.column == 1 && n % 2 == 0 && bits % (2 * sizeof(T)) == 0;
}

#if WS_DEVICE_CODE
// Neighbours as the words that hold them: taken apart as they come, each would be waited for by
// itself.
template <class T>
using Pair = row::Packed<T, 2>;

// kCount pairs, of which number e begins at from(e) where there(e, 0): all loads are in flight
// together. Rows end with a pair.
template <class T, int kCount, class From, class There>
__device__ __forceinline__ void load_pairs(Pair<T>* pairs, const From& from, const There& there) {
#pragma unroll
  for (int e = 0; e < kCount; ++e) pairs[e] = row::load_or_zeros<2>(from(e), there(e, 0));
}
// The same of any layout: the second of a pair is `column` elements behind the first, where
// there(e, 1).
template <class T, int kCount, class From, class There>
__device__ __forceinline__ void load_halves(Pair<T>* pairs, int64_t column, const From& from,
                                            const There& there) {
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    const auto low = row::load_or_zeros<1>(from(e), there(e, 0));
    const auto high = row::load_or_zeros<1>(from(e) + column, there(e, 1));
    if constexpr (sizeof(T) == 2) {
      pairs[e].words[0] = low.words[0] | static_cast<uint32_t>(high.words[0]) << 16;
    } else {
      pairs[e] = {{{low.words[0], high.words[0]}}};
    }
  }
}
#endif

}  // namespace ws::linear
