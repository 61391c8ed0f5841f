// Products of pairs of bf16 (PTX ISA, "Half Precision Floating Point Instructions: mul"), on bits
// as types.hpp holds them.
#pragma once

#include "warpsmith/ptx/convert.hpp"

namespace ws::ptx {

// mul.rn.bf16x2: a * b of the low halves and of the high halves, each rounded once. sm_90.
__device__ __forceinline__ uint32_t mul_rn_bf16x2(uint32_t a, uint32_t b) {
#ifdef WS_EMULATED
  const auto widened = [](uint32_t bits) { return std::bit_cast<float>(bits << 16); };
  // The product of two bf16 is exact in f32, but where it is subnormal there.
  return cvt_rn_bf16x2_f32(widened(a) * widened(b), widened(a >> 16) * widened(b >> 16));
#else
  uint32_t result = 0;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#endif
}

}  // namespace ws::ptx
