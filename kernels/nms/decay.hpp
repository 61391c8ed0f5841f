// What a box that is taken multiplies another's score by.
#pragma once

#include <cmath>

#include "kernels/nms/boxes.hpp"
#include "kernels/nms/exponential.hpp"

namespace ws::nms {

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
