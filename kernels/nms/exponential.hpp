// The exponential of soft-NMS: kernels and the reference have the same bits of it.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "warpsmith/device.hpp"

namespace ws::nms {

// e^x of an x that is not above 0, within 1 ulp: the same bits on every machine, since each step is
// one operation of f32, rounded once. e^x = 2^n e^r, r at most ln(2) / 2 in size, whose series ends
// after its seventh power.
__host__ __device__ inline float exp_of(float x) {
  if (!(x > -104)) return 0;  // less than half of the least f32
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kLn2 = 0x1.62e4p-1F;  // its first digits: a product with n is exact
  constexpr float kRest = 0x1.7f7d1cp-20F;
  const float n = rintf(x * kLog2E);
  const float r = fmaf(n, -kRest, fmaf(n, -kLn2, x));
  float sum = 1.0F / 5040;
  for (const float factor : {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F}) {
    sum = fmaf(sum, r, factor);
  }
  // 2^n in two: half of n is the exponent of a normal number, and its product rounded nowhere.
  const auto whole = static_cast<int>(n);
  const int half = whole / 2;
  const auto power = [](int exponent) {
    return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
  };
  return (sum * power(half)) * power(whole - half);
}

}  // namespace ws::nms
