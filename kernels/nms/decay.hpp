// What a box that is taken multiplies another's score by.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/nms/boxes.hpp"

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

#if WS_DEVICE_CODE
struct Decay {
  Method method;
  float threshold;
  float sigma;

  __device__ __forceinline__ explicit Decay(const SoftCall& call)
      : method(call.method), threshold(call.threshold), sigma(call.sigma) {}

  // The score of `other`, once `box` is taken.
  __device__ __forceinline__ float operator()(float score, const Box& box, const Box& other) const {
    const float inter = box.common_with(other);
    if (!(inter > 0)) return score;  // most have nothing in common
    const float quotient = inter / ((box.area() + other.area()) - inter);
    if (!(quotient > 0)) return score;
    const float iou = fminf(quotient, 1);
    if (method == Method::kGaussian) {
      return ptx::mul_rn_f32(score, exp_of(-ptx::mul_rn_f32(iou, iou) / sigma));
    }
    return iou > threshold ? ptx::mul_rn_f32(score, 1 - iou) : score;
  }
};

// Whether a key is of a score that is not below the least; 0, of no box, is not.
__device__ __forceinline__ bool is_worth(uint64_t key, float least) {
  return topk::Key<uint64_t>::worth(key) >= topk::Worth<float>::of(least, 0);
}
#endif

}  // namespace ws::nms
