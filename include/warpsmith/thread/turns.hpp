// Sines and cosines of angles, in registers alone: the library's own keep a table in local memory
// for angles that no kernel here has.
#pragma once

#include <cmath>
#include <cstdint>

#include "warpsmith/thread/math.hpp"

namespace ws::thread {

struct SinCos {
  float sin;
  float cos;
};

// Of `rest` radians, up to an eighth of a turn, beyond so many quarters. The series of Taylor up to
// where a term is below 2^-26.
__device__ __forceinline__ SinCos sin_cos_beyond(uint32_t quarters, float rest) {
  const float square = rest * rest;
  float s = fma(square, 1.0F / 362880, -1.0F / 5040);
  s = fma(square, s, 1.0F / 120);
  s = fma(square, s, -1.0F / 6);
  s = fma(square * rest, s, rest);
  float c = fma(square, -1.0F / 3628800, 1.0F / 40320);
  c = fma(square, c, -1.0F / 720);
  c = fma(square, c, 1.0F / 24);
  c = fma(square, c, -0.5F);
  c = fma(square, c, 1.0F);
  const bool is_odd = (quarters & 1) != 0;
  const float sin = is_odd ? c : s;
  const float cos = is_odd ? s : c;
  return {(quarters & 2) != 0 ? -sin : sin, ((quarters + 1) & 2) != 0 ? -cos : cos};
}

// Of an angle in units of 2^-32 turns, within 2 * 2^-24: a sum of angles, and a multiple of one,
// loses whole turns by itself, exactly.
__device__ __forceinline__ SinCos sin_cos_of_turns(uint32_t turns) {
  const uint32_t quarters = (turns + (1U << 29)) >> 30;  // the nearest
  const auto rest = static_cast<int32_t>(turns - (quarters << 30));
  return sin_cos_beyond(quarters,
                        static_cast<float>(rest) * 1.46291807926715968e-9F);  // 2 pi 2^-32
}

// Of an angle in radians, within 2 * 2^-24 up to 2^16 of them. Pi / 2 is taken off in three parts.
__device__ __forceinline__ SinCos sin_cos(float angle) {
  const float quarters = ::rintf(angle * 0.636619772367581343F);
  float rest = fma(quarters, -1.57079625129699707031F, angle);
  rest = fma(quarters, -7.54978941586159635335e-8F, rest);
  rest = fma(quarters, -5.39030285815811842e-15F, rest);
  return sin_cos_beyond(static_cast<uint32_t>(static_cast<int32_t>(quarters)), rest);
}

}  // namespace ws::thread
