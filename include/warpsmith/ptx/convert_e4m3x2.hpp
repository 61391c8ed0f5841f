// Pairs of e4m3 as pairs of f16 (PTX ISA, "cvt"): an instruction from sm_89 on, the bit arithmetic
// of the host before. Every e4m3 is an f16; NaN becomes the canonical one.
#pragma once

#include "warpsmith/ptx/convert.hpp"

namespace ws::ptx {

// Of the lower 16 bits: the first in bits 0-7, and in bits 0-15 of the result.
__device__ __forceinline__ uint32_t cvt_rn_f16x2_e4m3x2(uint32_t pair) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(WS_EMULATED)
  uint32_t result = 0;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(result) : "h"(static_cast<uint16_t>(pair)));
  return result;
#else
  return cvt_rn_f16x2_f32(detail::FloatE4m3::widen(pair & 0xFF, 0x7F),
                          detail::FloatE4m3::widen(pair >> 8 & 0xFF, 0x7F));
#endif
}

}  // namespace ws::ptx
