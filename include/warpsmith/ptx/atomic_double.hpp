// Addition of f64 to global memory, relaxed, in the scope of the GPU (PTX ISA, "red", .f64).
#pragma once

#include "warpsmith/ptx/atomic.hpp"

namespace ws::ptx {

// *address += value.
__device__ __forceinline__ void red_global_add(double* address, double value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::atomic_update(address, "red.global.add.f64", [&](double old) { return old + value; });
#else
  asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(__cvta_generic_to_global(address)),
               "d"(value)
               : "memory");
#endif
}

}  // namespace ws::ptx
