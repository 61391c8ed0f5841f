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

// fma.rn.f16x2: a * b + c of the low halves and of the high halves, each rounded once.
__device__ __forceinline__ uint32_t fma_rn_f16x2(uint32_t a, uint32_t b, uint32_t c) {
#ifdef WS_EMULATED
  const auto fma = [](uint32_t x, uint32_t y, uint32_t z) {
    // The product is exact in f32. Where the sum is not, and ends in an even bit, its neighbour on
    // the side of the error stands for it: rounded to f16 that gives what the exact sum would.
    const float product =
        cvt_f32_f16(static_cast<uint16_t>(x)) * cvt_f32_f16(static_cast<uint16_t>(y));
    const float addend = cvt_f32_f16(static_cast<uint16_t>(z));
    float sum = product + addend;
    const float rest = sum - product;
    const float error = (product - (sum - rest)) + (addend - rest);
    auto bits = std::bit_cast<uint32_t>(sum);
    // An error that is NaN belongs to a sum that is infinite or NaN.
    if ((error < 0 || error > 0) && (bits & 1) == 0) {
      bits += (error > 0) == (sum > 0) ? 1 : -1;
      sum = std::bit_cast<float>(bits);
    }
    return uint32_t{cvt_rn_f16_f32(sum)};
  };
  return fma(a, b, c) | fma(a >> 16, b >> 16, c >> 16) << 16;
#else
  uint32_t result = 0;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#endif
}

}  // namespace ws::ptx
