// Arithmetic in f16 (PTX ISA, "Half Precision Floating Point Instructions"), on bits as types.hpp
// holds them. Kernels that accumulate in f16, because their names say so, call it; others convert.
#pragma once

#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/types.hpp"

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

namespace detail {
#ifdef WS_EMULATED
// f of the low halves and of the high halves, as numbers of T.
template <class T, class F>
uint32_t by_halves(uint32_t a, uint32_t b, const F& f) {
  uint32_t result = 0;
  for (const int shift : {0, 16}) {
    T x, y;
    x.bits = static_cast<uint16_t>(a >> shift);
    y.bits = static_cast<uint16_t>(b >> shift);
    result |= static_cast<uint32_t>(f(x, y)) << shift;
  }
  return result;
}
template <class T>
uint16_t chosen(T x, T y, bool largest, bool nan_wins) {
  constexpr uint16_t kCanonicalNan = 0x7FFF;
  const float a = static_cast<float>(x);
  const float b = static_cast<float>(y);
  if (a != a || b != b) {
    if (nan_wins || (a != a && b != b)) return kCanonicalNan;
    return a != a ? y.bits : x.bits;
  }
  if (a == b) return (x.bits >> 15 != 0) == largest ? y.bits : x.bits;  // 0 above -0
  return (a > b) == largest ? x.bits : y.bits;
}
#endif
}  // namespace detail

// max.NaN.f16x2, .bf16x2: the larger of the low halves and of the high halves; NaN where one is
// NaN. T: half, bf16.
template <class T>
__device__ __forceinline__ uint32_t max_nan_x2(uint32_t a, uint32_t b) {
  static_assert(sizeof(T) == 2);
#ifdef WS_EMULATED
  return detail::by_halves<T>(a, b, [](T x, T y) { return detail::chosen(x, y, true, true); });
#else
  uint32_t result = 0;
  if constexpr (std::is_same_v<T, half>) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#endif
}

// min.f16x2, .bf16x2: the smaller of the low halves and of the high halves; NaN where both are.
template <class T>
__device__ __forceinline__ uint32_t min_x2(uint32_t a, uint32_t b) {
  static_assert(sizeof(T) == 2);
#ifdef WS_EMULATED
  return detail::by_halves<T>(a, b, [](T x, T y) { return detail::chosen(x, y, false, false); });
#else
  uint32_t result = 0;
  if constexpr (std::is_same_v<T, half>) {
    asm("min.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("min.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
#endif
}

}  // namespace ws::ptx
