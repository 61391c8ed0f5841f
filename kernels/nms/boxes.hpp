// Boxes as kernels see them, and three ways to tell whether they overlap by more than a threshold.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/nms/operations.hpp"
#include "kernels/topk/keys.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/rounded.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
struct alignas(16) Box {
  float x1, y1, x2, y2;

  __device__ __forceinline__ float area() const { return ptx::mul_rn_f32(x2 - x1, y2 - y1); }
  __device__ __forceinline__ float common_with(const Box& other) const {
    const float width = fmaxf(fminf(x2, other.x2) - fmaxf(x1, other.x1), 0.0F);
    const float height = fmaxf(fminf(y2, other.y2) - fmaxf(y1, other.y1), 0.0F);
    return ptx::mul_rn_f32(width, height);
  }
  // Whether they have both a width and a height in common: if not, common_with() is 0.
  __device__ __forceinline__ bool meets(const Box& other) const {
    const bool is_wide = fminf(x2, other.x2) > fmaxf(x1, other.x1);
    const bool is_high = fminf(y2, other.y2) > fmaxf(y1, other.y1);
    return is_wide && is_high;
  }
};

__device__ __forceinline__ Box box_of(const Call& call, int64_t i) {
  const float* const box = call.boxes + i * call.box_stride;
  return {thread::load(box), thread::load(box + call.corner_stride),
          thread::load(box + 2 * call.corner_stride), thread::load(box + 3 * call.corner_stride)};
}

// Larger is earlier: no two boxes have the same.
__device__ __forceinline__ uint64_t key_of(float score, int64_t i) {
  return topk::Key<uint64_t>::of(topk::Worth<float>::of(score, 0), i);
}
__device__ __forceinline__ uint64_t key_of(const Call& call, int64_t i) {
  return key_of(thread::load(call.scores + i * call.score_stride), i);
}
#endif

// inter / all > threshold, as it is written.
struct Quotient {
  float threshold;

  explicit Quotient(float most) : threshold(most) {}
#if WS_DEVICE_CODE
  __device__ __forceinline__ bool operator()(float inter, float all) const {
    return inter / all > threshold;
  }
#endif
};

// The same without a division, bit for bit. The quotient, rounded to f32, is above the threshold
// where it is rounded to the next float above it or to a later one: where the true quotient lies
// beyond the middle between the two, or on it, if that is rounded up, which it is where the upper
// neighbour's last bit is 0. The middle has 25 bits and `all` 24: their product is exact in f64,
// and so is the comparison. What is left are quotients without a product to compare: where `inter`
// is 0 the quotient is 0 or NaN, where `all` is below 0 it is negative, where it is NaN, NaN; none
// is above a threshold that is not negative. Where `all` is 0, x / 0 is above, and so is x above 0.
// `all` is a difference from `inter`: if that is above 0 it is not -0, if infinite not above 0.
struct Product {
  double middle;
  bool is_met;  // by what lies on the middle

  explicit Product(float threshold) {
    const float above = std::nextafter(threshold, INFINITY);
    middle = (static_cast<double>(threshold) + static_cast<double>(above)) / 2;
    is_met = (std::bit_cast<uint32_t>(above) & 1) == 0;
  }
#if WS_DEVICE_CODE
  __device__ __forceinline__ bool operator()(float inter, float all) const {
    if (!(inter > 0 && all >= 0)) return false;
    const double least = middle * static_cast<double>(all);
    const auto is = static_cast<double>(inter);
    return is > least || (is_met && is == least);
  }
#endif
};

// The same in f32. inter - threshold * all, rounded once, is compared with `all` times half the
// step from the threshold to the next float: `inter` with the middle, threshold * all taken from
// both. The right side is exact, a product with a power of two. The left one need not be, but
// rounding does not lead from one side of a float to the other, so all that matters is whether it
// is exact where it equals the right one: both are multiples of g / 2, g the last bits of
// `threshold` and `all` multiplied, and the right one is less than 2^23 g; what is rounded to that
// is a multiple of g below 2^24 g, so a float. `inter` is a multiple of g there too, being as large
// as a product of the two, with 24 bits. What is so small that g is no float, or nearly, is left to
// f64.
struct Remainder {
  float threshold;
  float half_step;
  float least;  // of `all`
  Product product;

  explicit Remainder(float most)
      : threshold(most),
        half_step((std::nextafter(most, INFINITY) - most) / 2),
        least(most >= 0x1p-20F ? 0x1p-60F : INFINITY),
        product(most) {}
#if WS_DEVICE_CODE
  __device__ __forceinline__ bool operator()(float inter, float all) const {
    if (!(all >= least)) return product(inter, all);
    const float left = thread::fma(-threshold, all, inter);
    const float middle = half_step * all;
    return left > middle || (product.is_met && left == middle);
  }
#endif
};

}  // namespace ws::nms
