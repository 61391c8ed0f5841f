// Loads of several vectors at once, of which the last may not be there.
#pragma once

#include "warpsmith/row/packed.hpp"

#if WS_DEVICE_CODE
namespace ws::row {

// A load under a predicate: it waits for nothing, so that many of them are in flight together, and
// a tile of loads at a row's end is as fast as any. Address and value chosen by a select, as if all
// were there, keep a predicate each until the products; of eight, the compiler then puts the first
// products between the loads, and half of these wait for memory once more.
template <int N, Cache kCache = Cache::kDefault, class T>
__device__ __forceinline__ Packed<T, N> load_or_zeros(const T* from, bool there WS_AND_PLACE) {
  auto vector = Packed<T, N>::filled(0);
  if (there) vector = Packed<T, N>::template load<kCache>(from WS_PASS_AND_PLACE);
  return vector;
}

}  // namespace ws::row
#endif
