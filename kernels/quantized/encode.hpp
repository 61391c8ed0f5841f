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

// The level of a group's largest magnitude, where there are no zeros.
__device__ __forceinline__ float largest_of(Format format) {
  switch (format) {
    case Format::kInt8: return 127;
    case Format::kInt4: return 7;
    case Format::kNf4: return 1;
    case Format::kFp8: return kLargestE4m3;
  }
  return 1;
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
      const int steps = steps_of(format);
      scale = (range.high - range.low) / static_cast<float>(steps);
      zero = whole(divided(-range.low), 0, static_cast<float>(steps)) +
             static_cast<float>(least_of(format));
    } else {
      scale = most / largest_of(format);
    }
  }

  // As its bits: the lower eight, or the lower four.
  __device__ __forceinline__ int code(float x) const {
    const float d = divided(x);
    if (format == Format::kFp8) return ptx::cvt_rn_satfinite_e4m3x2_f32(d, 0);
    if (format == Format::kNf4) return nf4_code(d, std::make_integer_sequence<int, 15>{});
    if (has_zero) {
      const int least = least_of(format);
      return static_cast<int>(whole(::rintf(d) + zero, static_cast<float>(least),
                                    static_cast<float>(least + steps_of(format))));
    }
    const float largest = largest_of(format);
    return static_cast<int>(whole(d, -largest, largest)) + middle_of(format);
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
                static_cast<uint8_t>(static_cast<int>(encoder.zero)));
}

}  // namespace ws::quantized
#endif
