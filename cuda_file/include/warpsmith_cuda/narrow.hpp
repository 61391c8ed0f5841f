// What half and bfloat16 share: 16 bits that are computed with in float and rounded, as one
// instruction of the GPU would.
#pragma once

#include "warpsmith_cuda/atomics.hpp"
#include "warpsmith_cuda/device.hpp"
#include "warpsmith_cuda/math.hpp"

namespace ws::cuda_file::device {
[[gnu::const]] float float_of_half(unsigned short bits);
[[gnu::const]] unsigned short half_of_float(float value);
[[gnu::const]] float float_of_bfloat16(unsigned short bits);
[[gnu::const]] unsigned short bfloat16_of_float(float value);
[[gnu::const]] float float_of_e4m3(unsigned char bits);
[[gnu::const]] unsigned char e4m3_of_float(float value);
[[gnu::const]] float float_of_e5m2(unsigned char bits);
[[gnu::const]] unsigned char e5m2_of_float(float value);
}  // namespace ws::cuda_file::device

// NOLINTBEGIN
// T: the type, T2: two of them, S: what the conversions call it.
#define WS_NARROW(T, T2, raw, to_float_bits, from_float_bits)                                      \
  struct raw {                                                                                     \
    unsigned short x;                                                                              \
  };                                                                                               \
  struct T {                                                                                       \
    unsigned short bits;                                                                           \
    T() = default;                                                                                 \
    WS_CUDA_INLINE constexpr T(const raw& r) : bits(r.x) {}                                        \
    WS_CUDA_INLINE T(float v) : bits(from_float_bits(v)) {}                                        \
    WS_CUDA_INLINE T(double v) : bits(from_float_bits(static_cast<float>(v))) {}                   \
    WS_CUDA_INLINE T(int v) : bits(from_float_bits(static_cast<float>(v))) {}                      \
    WS_CUDA_INLINE T(unsigned v) : bits(from_float_bits(static_cast<float>(v))) {}                 \
    WS_CUDA_INLINE T(long v) : bits(from_float_bits(static_cast<float>(v))) {}                     \
    WS_CUDA_INLINE T(unsigned long v) : bits(from_float_bits(static_cast<float>(v))) {}            \
    WS_CUDA_INLINE T(long long v) : bits(from_float_bits(static_cast<float>(v))) {}                \
    WS_CUDA_INLINE T(unsigned long long v) : bits(from_float_bits(static_cast<float>(v))) {}       \
    WS_CUDA_INLINE operator float() const { return to_float_bits(bits); }                          \
    WS_CUDA_INLINE explicit operator raw() const { return {bits}; }                                \
    WS_CUDA_INLINE T& operator+=(const T& o) { return *this = T(float(*this) + float(o)); }        \
    WS_CUDA_INLINE T& operator-=(const T& o) { return *this = T(float(*this) - float(o)); }        \
    WS_CUDA_INLINE T& operator*=(const T& o) { return *this = T(float(*this) * float(o)); }        \
    WS_CUDA_INLINE T& operator/=(const T& o) { return *this = T(float(*this) / float(o)); }        \
  };                                                                                               \
  struct __attribute__((aligned(4))) T2 {                                                          \
    T x, y;                                                                                        \
    T2() = default;                                                                                \
    WS_CUDA_INLINE T2(const T& a, const T& b) : x(a), y(b) {}                                      \
    WS_CUDA_INLINE T2& operator+=(const T2& o) { return *this = T2(x + o.x, y + o.y); }            \
    WS_CUDA_INLINE T2& operator-=(const T2& o) { return *this = T2(x - o.x, y - o.y); }            \
    WS_CUDA_INLINE T2& operator*=(const T2& o) { return *this = T2(x * o.x, y * o.y); }            \
    WS_CUDA_INLINE T2& operator/=(const T2& o) { return *this = T2(x / o.x, y / o.y); }            \
  };                                                                                               \
  WS_CUDA_INLINE T operator+(T a, T b) { return T(float(a) + float(b)); }                          \
  WS_CUDA_INLINE T operator-(T a, T b) { return T(float(a) - float(b)); }                          \
  WS_CUDA_INLINE T operator*(T a, T b) { return T(float(a) * float(b)); }                          \
  WS_CUDA_INLINE T operator/(T a, T b) { return T(float(a) / float(b)); }                          \
  WS_CUDA_INLINE T operator-(T a) { return T(raw{static_cast<unsigned short>(a.bits ^ 0x8000)}); } \
  WS_CUDA_INLINE T& operator++(T& a) { return a += T(1.0f); }                                      \
  WS_CUDA_INLINE T& operator--(T& a) { return a -= T(1.0f); }                                      \
  WS_CUDA_INLINE T operator++(T& a, int) {                                                         \
    const T before = a;                                                                            \
    ++a;                                                                                           \
    return before;                                                                                 \
  }                                                                                                \
  WS_CUDA_INLINE T operator--(T& a, int) {                                                         \
    const T before = a;                                                                            \
    --a;                                                                                           \
    return before;                                                                                 \
  }                                                                                                \
  WS_CUDA_INLINE bool operator==(T a, T b) { return float(a) == float(b); }                        \
  WS_CUDA_INLINE bool operator!=(T a, T b) { return float(a) != float(b); }                        \
  WS_CUDA_INLINE bool operator<(T a, T b) { return float(a) < float(b); }                          \
  WS_CUDA_INLINE bool operator>(T a, T b) { return float(a) > float(b); }                          \
  WS_CUDA_INLINE bool operator<=(T a, T b) { return float(a) <= float(b); }                        \
  WS_CUDA_INLINE bool operator>=(T a, T b) { return float(a) >= float(b); }                        \
  WS_CUDA_INLINE T2 operator+(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }                       \
  WS_CUDA_INLINE T2 operator-(T2 a, T2 b) { return {a.x - b.x, a.y - b.y}; }                       \
  WS_CUDA_INLINE T2 operator*(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }                       \
  WS_CUDA_INLINE T2 operator/(T2 a, T2 b) { return {a.x / b.x, a.y / b.y}; }                       \
  WS_CUDA_INLINE T2 operator-(T2 a) { return {-a.x, -a.y}; }                                       \
  WS_CUDA_INLINE bool operator==(T2 a, T2 b) { return a.x == b.x && a.y == b.y; }                  \
  /* One element and two. */                                                                       \
  WS_CUDA_INLINE T __hadd(T a, T b) { return a + b; }                                              \
  WS_CUDA_INLINE T __hsub(T a, T b) { return a - b; }                                              \
  WS_CUDA_INLINE T __hmul(T a, T b) { return a * b; }                                              \
  WS_CUDA_INLINE T __hdiv(T a, T b) { return a / b; }                                              \
  WS_CUDA_INLINE T __hadd_rn(T a, T b) { return a + b; }                                           \
  WS_CUDA_INLINE T __hmul_rn(T a, T b) { return a * b; }                                           \
  WS_CUDA_INLINE T __hadd_sat(T a, T b) { return T(__saturatef(float(a) + float(b))); }            \
  WS_CUDA_INLINE T __hmul_sat(T a, T b) { return T(__saturatef(float(a) * float(b))); }            \
  WS_CUDA_INLINE T __hfma(T a, T b, T c) { return T(fmaf(float(a), float(b), float(c))); }         \
  WS_CUDA_INLINE T __hfma_relu(T a, T b, T c) {                                                    \
    return T(fmaxf(fmaf(float(a), float(b), float(c)), 0.0f));                                     \
  }                                                                                                \
  WS_CUDA_INLINE T __hneg(T a) { return -a; }                                                      \
  WS_CUDA_INLINE T __habs(T a) { return T(raw{static_cast<unsigned short>(a.bits & 0x7FFF)}); }    \
  WS_CUDA_INLINE T __hmax(T a, T b) { return T(fmaxf(float(a), float(b))); }                       \
  WS_CUDA_INLINE T __hmin(T a, T b) { return T(fminf(float(a), float(b))); }                       \
  WS_CUDA_INLINE bool __heq(T a, T b) { return a == b; }                                           \
  WS_CUDA_INLINE bool __hne(T a, T b) { return a != b; }                                           \
  WS_CUDA_INLINE bool __hlt(T a, T b) { return a < b; }                                            \
  WS_CUDA_INLINE bool __hle(T a, T b) { return a <= b; }                                           \
  WS_CUDA_INLINE bool __hgt(T a, T b) { return a > b; }                                            \
  WS_CUDA_INLINE bool __hge(T a, T b) { return a >= b; }                                           \
  WS_CUDA_INLINE bool __hisnan(T a) { return float(a) != float(a); }                               \
  WS_CUDA_INLINE int __hisinf(T a) { return isinf(float(a)) ? (float(a) > 0 ? 1 : -1) : 0; }       \
  WS_CUDA_INLINE T2 __hadd2(T2 a, T2 b) { return a + b; }                                          \
  WS_CUDA_INLINE T2 __hsub2(T2 a, T2 b) { return a - b; }                                          \
  WS_CUDA_INLINE T2 __hmul2(T2 a, T2 b) { return a * b; }                                          \
  WS_CUDA_INLINE T2 __h2div(T2 a, T2 b) { return a / b; }                                          \
  WS_CUDA_INLINE T2 __hfma2(T2 a, T2 b, T2 c) {                                                    \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                         \
  }                                                                                                \
  WS_CUDA_INLINE T2 __hneg2(T2 a) { return -a; }                                                   \
  WS_CUDA_INLINE T2 __habs2(T2 a) { return {__habs(a.x), __habs(a.y)}; }                           \
  WS_CUDA_INLINE T2 __hmax2(T2 a, T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }           \
  WS_CUDA_INLINE T2 __hmin2(T2 a, T2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }           \
  WS_CUDA_INLINE bool __hbeq2(T2 a, T2 b) { return a == b; }                                       \
  WS_NARROW_MATH(T, T2, exp, expf)                                                                 \
  WS_NARROW_MATH(T, T2, exp2, exp2f)                                                               \
  WS_NARROW_MATH(T, T2, log, logf)                                                                 \
  WS_NARROW_MATH(T, T2, log2, log2f)                                                               \
  WS_NARROW_MATH(T, T2, sqrt, sqrtf)                                                               \
  WS_NARROW_MATH(T, T2, rsqrt, rsqrtf)                                                             \
  WS_NARROW_MATH(T, T2, sin, sinf)                                                                 \
  WS_NARROW_MATH(T, T2, cos, cosf)                                                                 \
  WS_NARROW_MATH(T, T2, tanh, tanhf)                                                               \
  WS_NARROW_MATH(T, T2, floor, floorf)                                                             \
  WS_NARROW_MATH(T, T2, ceil, ceilf)                                                               \
  WS_NARROW_MATH(T, T2, trunc, truncf)                                                             \
  WS_NARROW_MATH(T, T2, rint, rintf)                                                               \
  WS_CUDA_INLINE T hrcp(T a) { return T(1.0f / float(a)); }                                        \
  WS_CUDA_INLINE T2 h2rcp(T2 a) { return {hrcp(a.x), hrcp(a.y)}; }                                 \
  /* One value after another to the same pair: two roundings, one access. */                       \
  WS_CUDA_INLINE T atomicAdd(T* address, T value, WS_CUDA_PLACE) {                                 \
    return ::ws::cuda_file::device::atomic(                                                        \
        address, "atomicAdd", [value](T old) { return old + value; }, place);                      \
  }                                                                                                \
  WS_CUDA_INLINE T2 atomicAdd(T2* address, T2 value, WS_CUDA_PLACE) {                              \
    return ::ws::cuda_file::device::atomic(                                                        \
        address, "atomicAdd", [value](T2 old) { return old + value; }, place);                     \
  }

#define WS_NARROW_MATH(T, T2, name, function)                     \
  WS_CUDA_INLINE T h##name(T a) { return T(function(float(a))); } \
  WS_CUDA_INLINE T2 h2##name(T2 a) { return {h##name(a.x), h##name(a.y)}; }
// NOLINTEND
