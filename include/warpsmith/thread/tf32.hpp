// f32 as two numbers of TF32, of which three products are a product of f32: tensor cores cut off
// the 13 last bits of what they are given, and multiply what is left of a number in a second
// product.
//
// Ootomo and Yokota, arXiv:2203.03341, on which bits that keeps.
#pragma once

#include <bit>
#include <cmath>

#include "warpsmith/ptx/convert.hpp"
#include "warpsmith/thread/math.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// What TF32, which is cut off, leaves of a number, rounded to TF32 itself: the same sign, so that
// it gives an infinity nothing to cancel with, and 0 of what TF32 has no number for alone, since an
// infinity times 0 is NaN; where nothing is left, too little to change a sum. An infinity stays
// one; a NaN is one whatever is cut off. All by selects: a branch for each waits for the one
// before.
__device__ __forceinline__ float low_part(float x) {
  constexpr float kLeast = 0x1p-136F;  // of TF32
  constexpr uint32_t kHalf = 0x1000;   // of its last place
  const float size = ::fabsf(x);
  const float left = x - ptx::cut_to_tf32(x);
  const float low = ptx::cut_to_tf32(std::bit_cast<float>(std::bit_cast<uint32_t>(left) + kHalf));
  const float little = ::copysignf(::fminf(::fmaxf(size * 0x1p-60F, kLeast), size), x);
  const float finite = low == 0 ? little : low;
  const float beyond = x + x;
  return size < INFINITY ? finite : beyond;
}

// The same for tensor cores to cut off, by multiplications: low_part() has twice as many
// instructions, and most of them run at half the rate. A number is made larger by 3/8 of a last
// place on average, so that what is cut off then is as often too much as too little. It is not so
// of numbers that are not finite, or near the smallest; of them `strange` is no longer 0.
__device__ __forceinline__ float low_part_unless_strange(float x, float& strange) {
  constexpr float kRounding = 1 + 1.5F * 0x1p-12F;
  strange += ::fabsf(fma(x * 0x1p-60F, 0x1p60F, -x));
  return fma(x - ptx::cut_to_tf32(x), kRounding, x * 0x1p-40F);
}
template <int kCount>
__device__ __forceinline__ void low_parts(const float (&x)[kCount], float (&low)[kCount]) {
  float strange = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) low[i] = low_part_unless_strange(x[i], strange);
  if (strange == 0) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) low[i] = low_part(x[i]);
}

// Both numbers in two instructions, where the first is rounded to the nearest: what tensor cores
// cut off the second is as often too much as too little. Of an infinity, and of what rounds to one,
// the second is NaN or the other infinity, and NaN is every sum of products with both.
__device__ __forceinline__ float rounded_to_tf32(float x, float& left) {
  const float rounded = ptx::cvt_rn_tf32_f32(x);
  left = x - rounded;
  return rounded;
}

}  // namespace ws::thread
#endif
