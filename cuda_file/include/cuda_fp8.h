// __nv_fp8_e4m3 and __nv_fp8_e5m2: storage and conversions, which saturate.
#pragma once

#include <cuda_runtime.h>

#include "warpsmith_cuda/narrow.hpp"

// NOLINTBEGIN
typedef unsigned char __nv_fp8_storage_t;

#define WS_FP8(T, to_float_bits, from_float_bits)                                        \
  struct T {                                                                             \
    __nv_fp8_storage_t __x;                                                              \
    T() = default;                                                                       \
    WS_CUDA_INLINE explicit T(float v) : __x(from_float_bits(v)) {}                      \
    WS_CUDA_INLINE explicit T(double v) : __x(from_float_bits(static_cast<float>(v))) {} \
    WS_CUDA_INLINE explicit T(int v) : __x(from_float_bits(static_cast<float>(v))) {}    \
    WS_CUDA_INLINE explicit operator float() const { return to_float_bits(__x); }        \
    WS_CUDA_INLINE explicit operator double() const { return to_float_bits(__x); }       \
  };
WS_FP8(__nv_fp8_e4m3, ::ws::cuda_file::device::float_of_e4m3,
       ::ws::cuda_file::device::e4m3_of_float)
WS_FP8(__nv_fp8_e5m2, ::ws::cuda_file::device::float_of_e5m2,
       ::ws::cuda_file::device::e5m2_of_float)
#undef WS_FP8
// NOLINTEND
