// What the rungs share that make codes: a group's range, its scale, and the code of a number.
#pragma once

#include <cmath>

#include "kernels/quantized/codes.hpp"
#include "warpsmith/thread/quotient.hpp"

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

// Between two levels: what is above it has the upper one's code.
template <int kCode>
inline constexpr float kNf4Middle = (kNf4Levels[kCode] + kNf4Levels[kCode + 1]) / 2;

// How many of the 15 middles are below x, by halves: four comparisons. 0 for NaN.
__device__ __forceinline__ int nf4_code(float x) {
  const bool b3 = x > kNf4Middle<7>;
  const bool b2 = x > (b3 ? kNf4Middle<11> : kNf4Middle<3>);
  const float of_lower = b2 ? kNf4Middle<5> : kNf4Middle<1>;
  const float of_upper = b2 ? kNf4Middle<13> : kNf4Middle<9>;
  const bool b1 = x > (b3 ? of_upper : of_lower);
  const float of_0 = b1 ? kNf4Middle<2> : kNf4Middle<0>;
  const float of_4 = b1 ? kNf4Middle<6> : kNf4Middle<4>;
  const float of_8 = b1 ? kNf4Middle<10> : kNf4Middle<8>;
  const float of_12 = b1 ? kNf4Middle<14> : kNf4Middle<12>;
  const float lower = b2 ? of_4 : of_0;
  const float upper = b2 ? of_12 : of_8;
  const bool b0 = x > (b3 ? upper : lower);
  return (b3 ? 8 : 0) | (b2 ? 4 : 0) | (b1 ? 2 : 0) | (b0 ? 1 : 0);
}

// The nearest whole number, ties to even, within bounds that are whole; the least for NaN. The last
// bit of 1.5 * 2^23 as a float is 1: a sum is rounded there, and ends in the number's own bits.
// Neither a conversion nor rintf is, which an SM does 16 of in a clock.
constexpr float kWholes = 0x1.8p23F;
__device__ __forceinline__ float whole(float x, float least, float largest) {
  return thread::min(thread::max((x + kWholes) - kWholes, least), largest);
}
__device__ __forceinline__ int as_int(float whole) {
  return std::bit_cast<int>(whole + kWholes) - std::bit_cast<int>(kWholes);
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

// How numbers of a group become codes: the nearest by the scale that is stored. Divided, not
// multiplied by what 1 / scale is rounded to: with that a division is six instructions.
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
      const float span = range.high - range.low;
      // Of halves where f32 does not hold the whole, which is rounded alike.
      scale = span < INFINITY ? span / static_cast<float>(steps)
                              : (range.high / 2 - range.low / 2) / static_cast<float>(steps) * 2;
      zero = whole(divided(-range.low), 0, static_cast<float>(steps)) +
             static_cast<float>(least_of(format));
    } else {
      scale = most / largest_of(format);
    }
  }

  // f.operator()<kFormat, kZero>().
  template <class F>
  __device__ __forceinline__ auto dispatch(const F& f) const {
    if (format == Format::kFp8) return f.template operator()<Format::kFp8, false>();
    if (format == Format::kNf4) return f.template operator()<Format::kNf4, false>();
    if (format == Format::kInt8) {
      return has_zero ? f.template operator()<Format::kInt8, true>()
                      : f.template operator()<Format::kInt8, false>();
    }
    return has_zero ? f.template operator()<Format::kInt4, true>()
                    : f.template operator()<Format::kInt4, false>();
  }

  // As its bits: the lower eight, or the lower four.
  __device__ __forceinline__ int code(float x) const {
    const float quotient = divided(x);
    return dispatch(
        [&]<Format kFormat, bool kZero>() { return code_of<kFormat, kZero>(quotient); });
  }
  // Of kCount numbers put(i, code of x(i)): the format is looked at once.
  template <int kCount, class X, class Put>
  __device__ __forceinline__ void codes(const X& x, const Put& put) const {
    float quotients[kCount];
    if (is_plain()) {
      const float inverse = 1 / scale;
#pragma unroll
      for (int i = 0; i < kCount; ++i) quotients[i] = divided_by(x(i), inverse);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) quotients[i] = divided(x(i));
    }
    dispatch([&]<Format kFormat, bool kZero>() {
#pragma unroll
      for (int i = 0; i < kCount; ++i) put(i, code_of<kFormat, kZero>(quotients[i]));
    });
  }

  template <Format kFormat, bool kZero>
  __device__ __forceinline__ int code_of(float quotient) const {
    if constexpr (kFormat == Format::kFp8) {
      return ptx::cvt_rn_satfinite_e4m3x2_f32(quotient, 0);
    } else if constexpr (kFormat == Format::kNf4) {
      return nf4_code(quotient);
    } else if constexpr (kZero) {
      constexpr auto kLeast = static_cast<float>(least_of(kFormat));
      constexpr float kLargest = kLeast + static_cast<float>(steps_of(kFormat));
      const float code = (quotient + kWholes) - kWholes + zero;
      return as_int(thread::min(thread::max(code, kLeast), kLargest));
    } else {
      const float largest = largest_of(kFormat);  // rounded after, as it is whole
      return as_int(thread::min(thread::max(quotient, -largest), largest)) + middle_of(kFormat);
    }
  }

  // A group of zeros has a scale of 0.
  __device__ __forceinline__ float divided(float x) const { return scale == 0 ? 0 : x / scale; }

  // Where x / scale by its inverse is what a division gives, wherever that decides a code: of
  // smaller scales, what is left of an x that matters has bits below f32's last. (No x of a group
  // is larger than 448 times its scale.)
  __device__ __forceinline__ bool is_plain() const { return scale > 0x1p-60F && scale < 0x1p60F; }

 private:
  // Of -0 a quotient would be 0, which e4m3 tells from -0.
  __device__ __forceinline__ float divided_by(float x, float inverse) const {
    return ::copysignf(thread::quotient(x, scale, inverse), x);
  }
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
