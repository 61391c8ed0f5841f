// CUDA's mathematical functions, beside those that <cmath> has. Approximate ones are as accurate as
// the host's.
#pragma once

#include <math.h>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "warpsmith_cuda/types.hpp"

// NOLINTBEGIN
#define WS_PURE [[gnu::const]] WS_CUDA_INLINE

WS_PURE float __expf(float x) { return expf(x); }
WS_PURE float __exp10f(float x) { return powf(10.0f, x); }
WS_PURE float __logf(float x) { return logf(x); }
WS_PURE float __log2f(float x) { return log2f(x); }
WS_PURE float __log10f(float x) { return log10f(x); }
WS_PURE float __sinf(float x) { return sinf(x); }
WS_PURE float __cosf(float x) { return cosf(x); }
WS_PURE float __tanf(float x) { return tanf(x); }
WS_PURE float __tanhf(float x) { return tanhf(x); }
WS_PURE float __powf(float x, float y) { return powf(x, y); }
WS_CUDA_INLINE void __sincosf(float x, float* s, float* c) {
  *s = sinf(x);
  *c = cosf(x);
}
WS_PURE float __fdividef(float x, float y) { return x / y; }
WS_PURE float fdividef(float x, float y) { return x / y; }
WS_PURE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
WS_PURE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
WS_PURE double rsqrt(double x) { return 1.0 / sqrt(x); }
WS_PURE float rsqrt(float x) { return 1.0f / sqrtf(x); }
WS_PURE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
WS_PURE double rcbrt(double x) { return 1.0 / cbrt(x); }
WS_PURE float sinpif(float x) { return static_cast<float>(sin(3.14159265358979323846 * x)); }
WS_PURE float cospif(float x) { return static_cast<float>(cos(3.14159265358979323846 * x)); }
WS_PURE double sinpi(double x) { return sin(3.14159265358979323846 * x); }
WS_PURE double cospi(double x) { return cos(3.14159265358979323846 * x); }
WS_CUDA_INLINE void sincospif(float x, float* s, float* c) {
  *s = sinpif(x);
  *c = cospif(x);
}
WS_PURE float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
WS_PURE double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
WS_PURE float erfcxf(float x) { return expf(x * x) * erfcf(x); }
WS_PURE double erfcx(double x) { return exp(x * x) * erfc(x); }
WS_PURE float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
WS_PURE double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
WS_PURE float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
WS_PURE double rhypot(double a, double b) { return 1.0 / hypot(a, b); }
float normcdfinvf(float x);
double normcdfinv(double x);
float erfinvf(float x);
double erfinv(double x);
float erfcinvf(float x);
double erfcinv(double x);

// Rounding modes other than to nearest are not modelled: only these have their names here.
#define WS_ROUNDED(suffix)                                                            \
  WS_PURE float __fadd##suffix(float a, float b) { return a + b; }                    \
  WS_PURE float __fsub##suffix(float a, float b) { return a - b; }                    \
  WS_PURE float __fmul##suffix(float a, float b) { return a * b; }                    \
  WS_PURE float __fdiv##suffix(float a, float b) { return a / b; }                    \
  WS_PURE float __fmaf##suffix(float a, float b, float c) { return fmaf(a, b, c); }   \
  WS_PURE float __frcp##suffix(float a) { return 1.0f / a; }                          \
  WS_PURE float __fsqrt##suffix(float a) { return sqrtf(a); }                         \
  WS_PURE double __dadd##suffix(double a, double b) { return a + b; }                 \
  WS_PURE double __dsub##suffix(double a, double b) { return a - b; }                 \
  WS_PURE double __dmul##suffix(double a, double b) { return a * b; }                 \
  WS_PURE double __ddiv##suffix(double a, double b) { return a / b; }                 \
  WS_PURE double __fma##suffix(double a, double b, double c) { return fma(a, b, c); } \
  WS_PURE double __drcp##suffix(double a) { return 1.0 / a; }                         \
  WS_PURE double __dsqrt##suffix(double a) { return sqrt(a); }
WS_ROUNDED(_rn)
#undef WS_ROUNDED
WS_PURE float __frsqrt_rn(float a) { return 1.0f / sqrtf(a); }

WS_PURE int float2int_clamped(double x) {
  return x != x ? 0
                : static_cast<int>(x < -2147483648.0 ? -2147483648.0
                                                     : (x > 2147483647.0 ? 2147483647.0 : x));
}
#define WS_TO_INT(suffix, round)                                                               \
  WS_PURE int __float2int##suffix(float x) { return float2int_clamped(round(x)); }             \
  WS_PURE int __double2int##suffix(double x) { return float2int_clamped(round(x)); }           \
  WS_PURE unsigned __float2uint##suffix(float x) {                                             \
    return x > 0.0f ? static_cast<unsigned>(round(x)) : 0u;                                    \
  }                                                                                            \
  WS_PURE unsigned __double2uint##suffix(double x) {                                           \
    return x > 0.0 ? static_cast<unsigned>(round(x)) : 0u;                                     \
  }                                                                                            \
  WS_PURE long long __float2ll##suffix(float x) { return static_cast<long long>(round(x)); }   \
  WS_PURE long long __double2ll##suffix(double x) { return static_cast<long long>(round(x)); } \
  WS_PURE unsigned long long __float2ull##suffix(float x) {                                    \
    return x > 0.0f ? static_cast<unsigned long long>(round(x)) : 0ull;                        \
  }
WS_TO_INT(_rn, rint)
WS_TO_INT(_rz, trunc)
WS_TO_INT(_rd, floor)
WS_TO_INT(_ru, ceil)
#undef WS_TO_INT
WS_PURE float __int2float_rn(int x) { return static_cast<float>(x); }
WS_PURE float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
WS_PURE float __ll2float_rn(long long x) { return static_cast<float>(x); }
WS_PURE float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
WS_PURE double __int2double_rn(int x) { return x; }
WS_PURE double __uint2double_rn(unsigned x) { return x; }
WS_PURE double __ll2double_rn(long long x) { return static_cast<double>(x); }
WS_PURE float __double2float_rn(double x) { return static_cast<float>(x); }

template <class To, class From>
WS_CUDA_INLINE To ws_cuda_bits(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}
WS_PURE int __float_as_int(float x) { return ws_cuda_bits<int>(x); }
WS_PURE unsigned __float_as_uint(float x) { return ws_cuda_bits<unsigned>(x); }
WS_PURE float __int_as_float(int x) { return ws_cuda_bits<float>(x); }
WS_PURE float __uint_as_float(unsigned x) { return ws_cuda_bits<float>(x); }
WS_PURE long long __double_as_longlong(double x) { return ws_cuda_bits<long long>(x); }
WS_PURE double __longlong_as_double(long long x) { return ws_cuda_bits<double>(x); }
WS_PURE int __double2hiint(double x) {
  return static_cast<int>(ws_cuda_bits<unsigned long long>(x) >> 32);
}
WS_PURE int __double2loint(double x) {
  return static_cast<int>(ws_cuda_bits<unsigned long long>(x));
}
WS_PURE double __hiloint2double(int high, int low) {
  return ws_cuda_bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                              static_cast<unsigned>(low));
}

// ---- Integers ----------------------------------------------------------------------------------

WS_PURE int __popc(unsigned x) { return __builtin_popcount(x); }
WS_PURE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
WS_PURE int __ffs(int x) { return __builtin_ffs(x); }
WS_PURE int __ffsll(long long x) { return __builtin_ffsll(x); }
WS_PURE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
WS_PURE int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
WS_PURE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(x);
}
WS_PURE unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
WS_PURE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> (4 * i) & 0xF;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 0xFF;
    if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
    result |= byte << (8 * i);
  }
  return result;
}
WS_PURE int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
WS_PURE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
WS_PURE long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
WS_PURE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
WS_PURE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
WS_PURE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFFu) * (b & 0xFFFFFFu); }
WS_PURE int mul24(int a, int b) { return __mul24(a, b); }
WS_PURE unsigned umul24(unsigned a, unsigned b) { return __umul24(a, b); }
WS_PURE unsigned __sad(int a, int b, unsigned c) {
  return (a < b ? static_cast<unsigned>(b) - static_cast<unsigned>(a)
                : static_cast<unsigned>(a) - static_cast<unsigned>(b)) +
         c;
}
WS_PURE unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }
WS_PURE int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
WS_PURE int __rhadd(int a, int b) {
  return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1);
}
WS_PURE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(
      ((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31)) >> 32);
}
WS_PURE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
WS_PURE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<signed char>(a >> (8 * i)) * static_cast<signed char>(b >> (8 * i));
  }
  return c;
}
WS_PURE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xFF) * (b >> (8 * i) & 0xFF);
  return c;
}

// For exact matches these come before std::max's template, where a file says `using namespace std`.
#define WS_MIN_MAX(T, A, B)                                                               \
  WS_PURE T max(A a, B b) {                                                               \
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a); \
  }                                                                                       \
  WS_PURE T min(A a, B b) {                                                               \
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a); \
  }
WS_MIN_MAX(int, int, int)
WS_MIN_MAX(unsigned, unsigned, unsigned)
WS_MIN_MAX(unsigned, int, unsigned)
WS_MIN_MAX(unsigned, unsigned, int)
WS_MIN_MAX(long, long, long)
WS_MIN_MAX(unsigned long, unsigned long, unsigned long)
WS_MIN_MAX(unsigned long, long, unsigned long)
WS_MIN_MAX(unsigned long, unsigned long, long)
WS_MIN_MAX(long long, long long, long long)
WS_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
WS_MIN_MAX(unsigned long long, long long, unsigned long long)
WS_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef WS_MIN_MAX
WS_PURE float max(float a, float b) { return fmaxf(a, b); }
WS_PURE float min(float a, float b) { return fminf(a, b); }
WS_PURE double max(double a, double b) { return fmax(a, b); }
WS_PURE double min(double a, double b) { return fmin(a, b); }
WS_PURE double max(float a, double b) { return fmax(a, b); }
WS_PURE double max(double a, float b) { return fmax(a, b); }
WS_PURE double min(float a, double b) { return fmin(a, b); }
WS_PURE double min(double a, float b) { return fmin(a, b); }
WS_PURE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
WS_PURE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
WS_PURE long long llmin(long long a, long long b) { return min(a, b); }
WS_PURE long long llmax(long long a, long long b) { return max(a, b); }

// Two or four numbers in a word, each by itself.
template <class T, class Function>
WS_CUDA_INLINE unsigned ws_cuda_each(unsigned a, unsigned b, Function function) {
  constexpr unsigned kBits = 8 * sizeof(T);
  constexpr unsigned kMask = (1u << kBits) - 1;
  unsigned result = 0;
  for (unsigned at = 0; at < 32; at += kBits) {
    const unsigned one = static_cast<unsigned>(
        function(static_cast<T>(a >> at & kMask), static_cast<T>(b >> at & kMask)));
    result |= (one & kMask) << at;
  }
  return result;
}
#define WS_EACH(name, T, result)                                       \
  WS_PURE unsigned name(unsigned a, unsigned b) {                      \
    return ws_cuda_each<T>(a, b, [](int x, int y) { return result; }); \
  }
#define WS_EACH_OF_BOTH(name, result)      \
  WS_EACH(name##2, unsigned short, result) \
  WS_EACH(name##4, unsigned char, result)
#define WS_EACH_SIGNED(name, result) \
  WS_EACH(name##2, short, result)    \
  WS_EACH(name##4, signed char, result)
WS_EACH_OF_BOTH(__vadd, x + y)
WS_EACH_OF_BOTH(__vsub, x - y)
WS_EACH_OF_BOTH(__vmaxu, x > y ? x : y)
WS_EACH_OF_BOTH(__vminu, x < y ? x : y)
WS_EACH_OF_BOTH(__vabsdiffu, x > y ? x - y : y - x)
WS_EACH_OF_BOTH(__vavgu, (x + y + 1) / 2)
WS_EACH_OF_BOTH(__vcmpeq, x == y ? -1 : 0)
WS_EACH_OF_BOTH(__vcmpgtu, x > y ? -1 : 0)
WS_EACH_SIGNED(__vmaxs, x > y ? x : y)
WS_EACH_SIGNED(__vmins, x < y ? x : y)
#undef WS_EACH_SIGNED
#undef WS_EACH_OF_BOTH
#undef WS_EACH
#undef WS_PURE
// NOLINTEND
