// The special-function unit's approximations (PTX ISA, "ex2", "lg2", "rcp", "tanh").
// thread/math.hpp is what kernels call. The emulated bodies are accurate where the hardware errs
// within its bounds, but flush subnormals as it does.
#pragma once

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

}  // namespace ws::ptx
