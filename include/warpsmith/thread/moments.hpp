// Moments: count, mean and sum of squared distances from it, of a set of numbers that grows by one
// (Welford) or by another set (Chan).
//
// Welford, "Note on a method for calculating corrected sums of squares and products", 1962; Chan,
// Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
// 1979. Distances are taken from a mean near by, so nothing cancels where the mean is far from 0.
#pragma once

#include "warpsmith/thread/math.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

struct alignas(16) Moments {  // 16 bytes, which one store moves between blocks of a cluster
  float count;
  float mean;
  float squares;  // sum((x - mean)^2)
  float unused;

  // Of no numbers.
  __device__ __forceinline__ static Moments none() { return {0.0F, 0.0F, 0.0F, 0.0F}; }
};

// A sum of squares that was found by subtraction: rounding does not make it negative. NaN stays.
__device__ __forceinline__ float without_rounding_below_zero(float squares) {
  return squares < 0.0F ? 0.0F : squares;
}

// Of `count` numbers from sum(x - pivot) and sum((x - pivot)^2), where the pivot is one of them:
// then it is no further away than the root of `count` deviations, and what cancels is log2(count)
// bits at most.
__device__ __forceinline__ Moments from_pivot(float count, float pivot, float sum, float squares) {
  if (count == 0.0F) return Moments::none();
  const float mean = sum * reciprocal(count);
  return {count, pivot + mean, without_rounding_below_zero(fma(-sum, mean, squares)), 0.0F};
}

// One number more.
__device__ __forceinline__ Moments add(const Moments& m, float x) {
  const float count = m.count + 1.0F;
  const float before = x - m.mean;
  const float mean = fma(before, reciprocal(count), m.mean);
  return {count, mean, fma(before, x - mean, m.squares), 0.0F};
}

// Of both sets. Same bits for (a, b) and (b, a): a difference that changes its sign only meets
// another that does.
__device__ __forceinline__ Moments merge(const Moments& a, const Moments& b) {
  const float count = a.count + b.count;
  const float share = count > 0.0F ? reciprocal(count) : 0.0F;
  const float apart = b.mean - a.mean;
  const float tilt = (b.count - a.count) * share;
  // 0 times apart before it is squared: so nothing merges with numbers whose squares leave f32.
  return {count, 0.5F * fma(apart, tilt, a.mean + b.mean),
          fma(apart, apart * (a.count * b.count * share), a.squares + b.squares), 0.0F};
}

}  // namespace ws::thread
#endif
