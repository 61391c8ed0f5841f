// Shared memory by bytes: where a table in it holds offsets, they need no scaling.
#pragma once

#include "warpsmith/shared.hpp"

namespace ws {

// The element of `span` that begins `bytes` behind its first.
template <class T>
__device__ __forceinline__ T at_byte(const SharedSpan<T>& span, uint32_t bytes WS_AND_PLACE) {
#ifdef WS_EMULATED
  return span[{bytes / sizeof(T), place}];
#else
  return *reinterpret_cast<const T*>(reinterpret_cast<const unsigned char*>(span.pointer()) +
                                     bytes);
#endif
}

}  // namespace ws
