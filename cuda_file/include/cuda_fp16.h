// half and half2.
#pragma once

#include <cuda_runtime.h>

#include "warpsmith_cuda/narrow.hpp"

// NOLINTBEGIN
WS_NARROW(__half, __half2, __half_raw, ::ws::cuda_file::device::float_of_half,
          ::ws::cuda_file::device::half_of_float)
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;

WS_CUDA_INLINE __half __float2half(float v) { return __half(v); }
WS_CUDA_INLINE __half __float2half_rn(float v) { return __half(v); }
WS_CUDA_INLINE __half __double2half(double v) { return __half(v); }
WS_CUDA_INLINE float __half2float(__half v) { return float(v); }
WS_CUDA_INLINE __half __int2half_rn(int v) { return __half(v); }
WS_CUDA_INLINE __half __uint2half_rn(unsigned v) { return __half(v); }
WS_CUDA_INLINE __half __short2half_rn(short v) { return __half(int(v)); }
WS_CUDA_INLINE int __half2int_rn(__half v) { return __float2int_rn(float(v)); }
WS_CUDA_INLINE int __half2int_rz(__half v) { return __float2int_rz(float(v)); }
WS_CUDA_INLINE unsigned __half2uint_rn(__half v) { return __float2uint_rn(float(v)); }
WS_CUDA_INLINE __half2 __float2half2_rn(float v) { return {__half(v), __half(v)}; }
WS_CUDA_INLINE __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
WS_CUDA_INLINE __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
WS_CUDA_INLINE float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
WS_CUDA_INLINE __half2 __half2half2(__half v) { return {v, v}; }
WS_CUDA_INLINE __half2 __halves2half2(__half a, __half b) { return {a, b}; }
WS_CUDA_INLINE __half2 make_half2(__half a, __half b) { return {a, b}; }
WS_CUDA_INLINE __half __low2half(__half2 v) { return v.x; }
WS_CUDA_INLINE __half __high2half(__half2 v) { return v.y; }
WS_CUDA_INLINE float __low2float(__half2 v) { return float(v.x); }
WS_CUDA_INLINE float __high2float(__half2 v) { return float(v.y); }
WS_CUDA_INLINE __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
WS_CUDA_INLINE __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
WS_CUDA_INLINE __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }
WS_CUDA_INLINE unsigned short __half_as_ushort(__half v) { return v.bits; }
WS_CUDA_INLINE short __half_as_short(__half v) { return static_cast<short>(v.bits); }
WS_CUDA_INLINE __half __ushort_as_half(unsigned short v) { return __half_raw{v}; }
WS_CUDA_INLINE __half __short_as_half(short v) {
  return __half_raw{static_cast<unsigned short>(v)};
}
// NOLINTEND
