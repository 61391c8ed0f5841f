// forget: a value that the compiler knows nothing of.
#pragma once

#include <cstdint>

#include "warpsmith/device.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// The same number. What is computed from the result is computed anew: where many addresses follow
// from one number at little cost, the compiler would rather keep all of them in registers from one
// use to the next, and spill.
__device__ __forceinline__ int64_t forget(int64_t value) {
#ifndef WS_EMULATED
  asm volatile("" : "+l"(value));
#endif
  return value;
}
__device__ __forceinline__ int forget(int value) {
#ifndef WS_EMULATED
  asm volatile("" : "+r"(value));
#endif
  return value;
}
__device__ __forceinline__ uint32_t forget(uint32_t value) {
#ifndef WS_EMULATED
  asm volatile("" : "+r"(value));
#endif
  return value;
}
// ... or found once, where the compiler would rather find each of several addresses from the start.
template <class T>
__device__ __forceinline__ T* forget(T* pointer) {
#ifndef WS_EMULATED
  asm volatile("" : "+l"(pointer));
#endif
  return pointer;
}

}  // namespace ws::thread
#endif
