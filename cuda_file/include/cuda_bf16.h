// __nv_bfloat16 and __nv_bfloat162.
#pragma once

#include <cuda_runtime.h>

#include "warpsmith_cuda/narrow.hpp"

// NOLINTBEGIN
WS_NARROW(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw,
          ::ws::cuda_file::device::float_of_bfloat16, ::ws::cuda_file::device::bfloat16_of_float)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

WS_CUDA_INLINE __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
WS_CUDA_INLINE __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
WS_CUDA_INLINE __nv_bfloat16 __double2bfloat16(double v) { return __nv_bfloat16(v); }
WS_CUDA_INLINE __nv_bfloat16 __int2bfloat16_rn(int v) { return __nv_bfloat16(v); }
WS_CUDA_INLINE float __bfloat162float(__nv_bfloat16 v) { return float(v); }
WS_CUDA_INLINE __nv_bfloat162 __float2bfloat162_rn(float v) { return {v, v}; }
WS_CUDA_INLINE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return {a, b}; }
WS_CUDA_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
WS_CUDA_INLINE float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
WS_CUDA_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) { return {v, v}; }
WS_CUDA_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return {a, b};
}
WS_CUDA_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
WS_CUDA_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
WS_CUDA_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
WS_CUDA_INLINE float __low2float(__nv_bfloat162 v) { return float(v.x); }
WS_CUDA_INLINE float __high2float(__nv_bfloat162 v) { return float(v.y); }
WS_CUDA_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
WS_CUDA_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) { return __nv_bfloat16_raw{v}; }
// NOLINTEND
