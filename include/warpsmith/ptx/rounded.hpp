// Arithmetic that is rounded where it stands (PTX ISA, "mul.rn"): a compiler makes one operation,
// rounded once, of a product and the sum that it goes into, and does not of this.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

__device__ __forceinline__ float mul_rn_f32(float a, float b) {
#ifdef WS_EMULATED
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
#else
  return __fmul_rn(a, b);
#endif
}

}  // namespace ws::ptx
