// Arithmetic in f16 (PTX ISA, "Half Precision Floating Point Instructions"), on bits as types.hpp
// holds them. Kernels that accumulate in f16, because their names say so, call it; others convert.
#pragma once

#include "warpsmith/ptx/convert.hpp"

namespace ws::ptx {

// add.rn.f16: a + b, rounded once.
__device__ __forceinline__ uint16_t add_rn_f16(uint16_t a, uint16_t b) {
#ifdef WS_EMULATED
  return cvt_rn_f16_f32(cvt_f32_f16(a) + cvt_f32_f16(b));
#else
  uint16_t result = 0;
  asm("add.rn.f16 %0, %1, %2;" : "=h"(result) : "h"(a), "h"(b));
  return result;
#endif
}

}  // namespace ws::ptx
