// Functions of one float, for kernels. Those without a prefix are within a few ulps wherever the
// result is a normal number; those called fast_ are the hardware's approximations. All take
// infinities, NaN and huge arguments to what mathematics says; subnormal results may become zero.
#pragma once

#include <cmath>

#include "warpsmith/ptx/math.hpp"

namespace ws::thread {

inline constexpr float kLog2E = 1.44269504088896340736f;  // exp(x) = 2^(x * kLog2E)
inline constexpr float kLn2 = 0.69314718055994530942f;    // log(x) = log2(x) * kLn2

// 2^x in one instruction, within 2 ulps. Kernels that scale their arguments anyway use it for exp.
__device__ __forceinline__ float exp2(float x) { return ptx::ex2_approx_ftz_f32(x); }

// e^x within 2 ulps.
__device__ __forceinline__ float exp(float x) { return ::expf(x); }

// e^x in two instructions: the relative error grows with |x|, to 50 ulps at |x| = 88.
__device__ __forceinline__ float fast_exp(float x) { return exp2(x * kLog2E); }

// log2(x) in one instruction: absolute error 2^-22 around x = 1.
__device__ __forceinline__ float fast_log2(float x) { return ptx::lg2_approx_ftz_f32(x); }

// Natural logarithm within 1 ulp.
__device__ __forceinline__ float log(float x) { return ::logf(x); }

// 1 / x within 1 ulp.
__device__ __forceinline__ float reciprocal(float x) { return ptx::rcp_approx_ftz_f32(x); }

// 1 / sqrt(x) within 2 ulps.
__device__ __forceinline__ float rsqrt(float x) { return ptx::rsqrt_approx_f32(x); }

// sqrt(x) within 2 ulps, in a few instructions without a branch.
__device__ __forceinline__ float sqrt(float x) { return ptx::sqrt_approx_f32(x); }

__device__ __forceinline__ float tanh(float x) { return ::tanhf(x); }

// Relative error 2^-11.
__device__ __forceinline__ float fast_tanh(float x) { return ptx::tanh_approx_f32(x); }

__device__ __forceinline__ float erf(float x) { return ::erff(x); }
__device__ __forceinline__ float erfc(float x) { return ::erfcf(x); }

// 1 / (1 + e^-x), with full relative accuracy also for very negative x.
__device__ __forceinline__ float sigmoid(float x) { return reciprocal(1.0f + exp(-x)); }

__device__ __forceinline__ float fast_sigmoid(float x) { return reciprocal(1.0f + fast_exp(-x)); }

// The larger value; a NaN loses against a number (fmaxf). One instruction.
__device__ __forceinline__ float max(float a, float b) { return ::fmaxf(a, b); }
__device__ __forceinline__ float min(float a, float b) { return ::fminf(a, b); }

// a * b + c, rounded once.
__device__ __forceinline__ float fma(float a, float b, float c) { return ::fmaf(a, b, c); }

}  // namespace ws::thread
