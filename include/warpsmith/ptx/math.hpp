// The special-function unit's approximations (PTX ISA, "ex2", "lg2", "rcp", "rsqrt", "sqrt",
// "tanh"), and the maximum that lets a NaN through (PTX ISA, "max"). thread/math.hpp is what
// kernels call. The emulated bodies are accurate where the hardware errs within its bounds, but
// flush subnormals as it does.
#pragma once

#include <bit>
#include <cmath>

#include "warpsmith/device.hpp"

namespace ws::ptx {

#ifdef WS_EMULATED
namespace detail {
// .ftz: subnormals become zero, with their sign.
inline float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}
}  // namespace detail
#endif

// 2^x; relative error at most 2^-22.
__device__ __forceinline__ float ex2_approx_ftz_f32(float x) {
#ifdef WS_EMULATED
  return detail::flush(std::exp2(detail::flush(x)));
#else
  float result = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// log2(x); absolute error at most 2^-22 between 0.5 and 2, relative error at most 2^-22 elsewhere.
__device__ __forceinline__ float lg2_approx_ftz_f32(float x) {
#ifdef WS_EMULATED
  return std::log2(detail::flush(x));
#else
  float result = 0;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// 1 / x; at most 1 ulp off.
__device__ __forceinline__ float rcp_approx_ftz_f32(float x) {
#ifdef WS_EMULATED
  return detail::flush(1.0f / detail::flush(x));
#else
  float result = 0;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// 1 / sqrt(x); relative error at most 2^-22.9; subnormal arguments are taken as they are.
__device__ __forceinline__ float rsqrt_approx_f32(float x) {
#ifdef WS_EMULATED
  return 1.0f / std::sqrt(x);
#else
  float result = 0;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// sqrt(x); relative error at most 2^-23; subnormal arguments are taken as they are.
__device__ __forceinline__ float sqrt_approx_f32(float x) {
#ifdef WS_EMULATED
  return std::sqrt(x);
#else
  float result = 0;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// tanh(x); relative error at most 2^-11: enough for f16 and bf16 results, not for f32.
__device__ __forceinline__ float tanh_approx_f32(float x) {
#ifdef WS_EMULATED
  return std::tanh(x);
#else
  float result = 0;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// The larger value; NaN where either is one. 0 is larger than -0.
__device__ __forceinline__ float max_nan_f32(float a, float b) {
#ifdef WS_EMULATED
  if (std::isnan(a) || std::isnan(b)) return std::bit_cast<float>(0x7FFFFFFFu);
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
#else
  float result = 0;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#endif
}

}  // namespace ws::ptx
