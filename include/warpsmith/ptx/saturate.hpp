// Numbers brought into [0, 1] (PTX ISA, ".sat").
#pragma once

#include <cmath>

#include "warpsmith/device.hpp"

namespace ws::ptx {

// a * b + c, rounded once, then brought into [0, 1]; NaN becomes 0. One instruction.
__device__ __forceinline__ float fma_sat_f32(float a, float b, float c) {
#ifdef WS_EMULATED
  const float sum = ::fmaf(a, b, c);
  return sum > 0 ? (sum < 1 ? sum : 1.0F) : 0.0F;
#else
  return __saturatef(__fmaf_rn(a, b, c));
#endif
}

}  // namespace ws::ptx
