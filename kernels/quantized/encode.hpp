// What the rungs share that make codes: a group's range, its scale, and the code of a number.
#pragma once

#include <cmath>

#include "kernels/quantized/codes.hpp"

#if WS_DEVICE_CODE
namespace ws::quantized {

// Of a group, and of 0; a NaN stays.
struct Range {
  float low = 0;
  float high = 0;

  __device__ __forceinline__ void add(float x) {
    if (x < low || x != x) low = x;
    if (x > high || x != x) high = x;
  }
};
struct Either {
  __device__ __forceinline__ Range operator()(Range p, Range q) const {
    p.add(q.low);
    p.add(q.high);
    return p;
  }
};

template <int... kCodes>
__device__ __forceinline__ int nf4_code(float x, std::integer_sequence<int, kCodes...>) {
  int code = 0;
  const auto pass = [&]<int kCode>() {
    constexpr float kEdge = (kNf4Levels[kCode] + kNf4Levels[kCode + 1]) / 2;
    if (x > kEdge) code = kCode + 1;
  };
  (pass.template operator()<kCodes>(), ...);
  return code;
}

// The nearest whole number, ties to even, within bounds; the least for NaN.
__device__ __forceinline__ float whole(float x, float least, float largest) {
  return thread::min(thread::max(::rintf(x), least), largest);
}

// How numbers of a group become codes. Divided, not multiplied by what 1 / scale is rounded to: a
// code is the nearest by the scale that is stored.
struct Encoder {
  Format format;
  bool has_zero;
  float scale;
  float zero = 0;

  __device__ __forceinline__ Encoder(Format format, bool has_zero, Range range)
      : format(format), has_zero(has_zero) {
    const float most = range.high > -range.low ? range.high : -range.low;
    if (has_zero) {
      scale = (range.high - range.low) / 15;
      zero = whole(divided(-range.low), 0, 15);
    } else {
      scale = format == Format::kInt8 ? most / 127 : format == Format::kInt4 ? most / 7 : most;
    }
  }

  __device__ __forceinline__ int code(float x) const {
    const float d = divided(x);
    if (format == Format::kInt8) return static_cast<int>(whole(d, -127, 127));
    if (format == Format::kNf4) return nf4_code(d, std::make_integer_sequence<int, 15>{});
    if (has_zero) return static_cast<int>(whole(::rintf(d) + zero, 0, 15));
    return static_cast<int>(whole(d, -7, 7)) + 8;
  }

 private:
  // A group of zeros has a scale of 0.
  __device__ __forceinline__ float divided(float x) const { return scale == 0 ? 0 : x / scale; }
};

__device__ __forceinline__ void store_group(const Weight& w, int64_t n, int64_t group,
                                            const Encoder& encoder) {
  thread::store(w.scales.as<float>() + n * w.scales.row + group * w.scales.column, encoder.scale);
  if (!encoder.has_zero) return;
  thread::store(w.zeros.as<uint8_t>() + n * w.zeros.row + group * w.zeros.column,
                static_cast<uint8_t>(encoder.zero));
}

}  // namespace ws::quantized
#endif
