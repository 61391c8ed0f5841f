// Built-in vector types, dim3.
#pragma once

#include <cstddef>
#include <cstdint>

#include "warpsmith_cuda/words.hpp"

// NOLINTBEGIN
#define WS_VECTORS(name, T, align2, align4)                                        \
  struct name##1 { T x; };                                                         \
  struct __attribute__((aligned(align2))) name##2 { T x, y; };                     \
  struct name##3 { T x, y, z; };                                                   \
  struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; };               \
  WS_CUDA_INLINE name##1 make_##name##1(T x) { return {x}; }                       \
  WS_CUDA_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }       \
  /* Not inline, so that storing one is one access and not one for each member. */ \
  name##2 make_##name##2(T x, T y);                                                \
  name##4 make_##name##4(T x, T y, T z, T w);

WS_VECTORS(char, signed char, 2, 4)
WS_VECTORS(uchar, unsigned char, 2, 4)
WS_VECTORS(short, short, 4, 8)
WS_VECTORS(ushort, unsigned short, 4, 8)
WS_VECTORS(int, int, 8, 16)
WS_VECTORS(uint, unsigned int, 8, 16)
WS_VECTORS(long, long, 16, 16)
WS_VECTORS(ulong, unsigned long, 16, 16)
WS_VECTORS(longlong, long long, 16, 16)
WS_VECTORS(ulonglong, unsigned long long, 16, 16)
WS_VECTORS(float, float, 8, 16)
WS_VECTORS(double, double, 16, 16)
#undef WS_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
// NOLINTEND
