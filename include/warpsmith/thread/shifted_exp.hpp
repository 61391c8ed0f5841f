// exp(x - shift) of many x: in a multiply-add and an exponential each, or exactly 1 at the shift.
#pragma once

#include "warpsmith/thread/math.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// f(x) * factor() = exp(x - shift), where x - shift is not far above 0. The product of the shift
// and log2(e) is rounded, which all f(x) are off by alike, to 2^64 of the largest shifts: factor()
// takes it out, once for all. From 2^30 on the product would be off by more than the exponential
// can take; such x have no digits below 64, so that f may be 2^(x - shift), of an exact difference:
// 1 where they are the same, and else next to nothing, as exp has it.
class ShiftedExp {
 public:
  __device__ __forceinline__ explicit ShiftedExp(float shift)
      : scale_(::fabsf(shift) < 0x1p30F ? kLog2E : 1.0F), offset_(shift * scale_), shift_(shift) {}

  __device__ __forceinline__ float operator()(float x) const {
    return exp2(fma(x, scale_, -offset_));
  }
  __device__ __forceinline__ float factor() const {
    return scale_ == 1.0F ? 1.0F : exp2(-fma(shift_, scale_, -offset_));
  }

 private:
  float scale_;
  float offset_;
  float shift_;
};

// The same by a difference, an instruction more each: 1 at the shift, to the bit, so that the
// logarithm of a sum of nothing else is 0. ShiftedExp's may be off by the exponential's last bit.
class DifferenceExp {
 public:
  __device__ __forceinline__ explicit DifferenceExp(float shift) : shift_(shift) {}
  __device__ __forceinline__ float operator()(float x) const { return fast_exp(x - shift_); }
  __device__ __forceinline__ float factor() const { return 1; }

 private:
  float shift_;
};

}  // namespace ws::thread
#endif
