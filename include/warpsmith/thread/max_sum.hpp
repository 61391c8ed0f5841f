// MaxSum: the maximum and the sum of exponentials of a set of numbers, merged in any order.
//
// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867).
#pragma once

#include <cmath>
#include <limits>

#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/shifted_exp.hpp"
#include "warpsmith/thread/tile.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// max(x) and sum(exp(x - max(x))). Values of -infinity add nothing, also where there are no others;
// NaN and +infinity make the sum NaN.
struct MaxSum {
  float max;
  float sum;

  // Of no numbers.
  __device__ __forceinline__ static MaxSum none() { return {-kInfinity, 0.0F}; }
};

// What to subtract: the maximum, or 0 where all is -infinity and the difference would be NaN.
// Subtracted before the exponential scales its argument: x * log2(e) of a large x has lost the
// digits that count. ShiftedExp scales first, and takes out what that is off by.
__device__ __forceinline__ float finite_or_zero(float max) {
  return max == -kInfinity ? 0.0F : max;
}

// Same bits for (a, b) and (b, a): the sum that stays is never the one that is scaled.
__device__ __forceinline__ MaxSum merge(const MaxSum& a, const MaxSum& b) {
  const bool first = a.max >= b.max;
  const MaxSum& high = first ? a : b;
  const MaxSum& low = first ? b : a;
  const float below = low.max == high.max ? 0.0F : low.max - high.max;
  return {high.max, high.sum + low.sum * fast_exp(below)};
}

// One number more.
__device__ __forceinline__ MaxSum add(const MaxSum& total, float x) {
  const float max = fmaxf(total.max, x);
  const float shift = finite_or_zero(max);
  return {max, total.sum * fast_exp(total.max - shift) + fast_exp(x - shift)};
}

// N numbers more, of which `largest` is the largest: at(i) gives the i-th. The sum moves once.
template <int N, class Exp = ShiftedExp, class At>
__device__ __forceinline__ MaxSum add(const MaxSum& total, float largest, const At& at) {
  const float max = fmaxf(total.max, largest);
  const float shift = finite_or_zero(max);
  const Exp exp(shift);
  float sum = 0;
#pragma unroll
  for (int first = 0; first < N; first += 8) {
    float part = 0;  // sums of few wait less for one another
#pragma unroll
    for (int i = first; i < first + 8 && i < N; ++i) part += exp(at(i));
    sum += part;
  }
  // Times 1 where the maximum has not moved.
  return {max, fma(total.sum, fast_exp(total.max - shift), sum * exp.factor())};
}

}  // namespace ws::thread
#endif
