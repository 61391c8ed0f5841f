// The element types: half, bf16, e4m3, e5m2 beside float, and Vec<T, N>, N elements that move
// together. They hold bits and convert; arithmetic happens in float. Host and device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "warpsmith/device.hpp"
#include "warpsmith/ptx/convert.hpp"

namespace ws {

// IEEE binary16: 1 sign, 5 exponent, 10 mantissa bits. Largest finite value 65504.
struct half {  // NOLINT(readability-identifier-naming): stands beside float
  uint16_t bits;

  half() = default;
  __host__ __device__ __forceinline__ explicit half(float value)
      : bits(ptx::cvt_rn_f16_f32(value)) {}
  __host__ __device__ __forceinline__ explicit operator float() const {
    return ptx::cvt_f32_f16(bits);
  }
};

// The upper half of binary32: 1 sign, 8 exponent, 7 mantissa bits.
struct bf16 {  // NOLINT(readability-identifier-naming)
  uint16_t bits;

  bf16() = default;
  __host__ __device__ __forceinline__ explicit bf16(float value)
      : bits(ptx::cvt_rn_bf16_f32(value)) {}
  __host__ __device__ __forceinline__ explicit operator float() const {
    return ptx::cvt_f32_bf16(bits);
  }
};

// OCP fp8 E4M3: largest finite value 448, no infinity. Conversion saturates.
struct e4m3 {  // NOLINT(readability-identifier-naming)
  uint8_t bits;

  e4m3() = default;
  __host__ __device__ __forceinline__ explicit e4m3(float value)
      : bits(static_cast<uint8_t>(ptx::cvt_rn_satfinite_e4m3x2_f32(value, 0))) {}
  __host__ __device__ __forceinline__ explicit operator float() const {
    return ptx::cvt_f32_e4m3(bits);
  }
};

// OCP fp8 E5M2: largest finite value 57344. Conversion saturates, also infinity.
struct e5m2 {  // NOLINT(readability-identifier-naming)
  uint8_t bits;

  e5m2() = default;
  __host__ __device__ __forceinline__ explicit e5m2(float value)
      : bits(static_cast<uint8_t>(ptx::cvt_rn_satfinite_e5m2x2_f32(value, 0))) {}
  __host__ __device__ __forceinline__ explicit operator float() const {
    return ptx::cvt_f32_e5m2(bits);
  }
};

template <class T>
inline constexpr bool kIsNarrowFloat = std::is_same_v<T, half> || std::is_same_v<T, bf16> ||
                                       std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2>;

// Any float type of the catalogue.
template <class T>
inline constexpr bool kIsFloat = std::is_same_v<T, float> || kIsNarrowFloat<T>;

// Equal values, as for float: -0 equals 0, NaN equals nothing.
template <class T>
__host__ __device__ __forceinline__ std::enable_if_t<kIsNarrowFloat<T>, bool> operator==(T a, T b) {
  return static_cast<float>(a) == static_cast<float>(b);
}

// T to float, exactly.
template <class T>
__host__ __device__ __forceinline__ float to_float(T value) {
  static_assert(kIsFloat<T>);
  return static_cast<float>(value);
}

// float to T, rounded to nearest even.
template <class T>
__host__ __device__ __forceinline__ T from_float(float value) {
  static_assert(kIsFloat<T>);
  return static_cast<T>(value);
}

namespace detail {
// The largest power of two that divides `bytes`, at most the 16 of the widest access.
constexpr int vector_alignment(int bytes) {
  const int lowest_bit = bytes & -bytes;
  return lowest_bit < 16 ? lowest_bit : 16;
}
}  // namespace detail

// N consecutive elements, aligned so that up to 16 bytes are one access. An aggregate that starts
// uninitialised: Vec<float, 4> v; or Vec<float, 4> v{}; for zeros.
template <class T, int N>
struct alignas(detail::vector_alignment(N* static_cast<int>(sizeof(T)))) Vec {
  static_assert(N > 0);

  T values[N];

  __host__ __device__ __forceinline__ T& operator[](int i) { return values[i]; }
  __host__ __device__ __forceinline__ const T& operator[](int i) const { return values[i]; }
  __host__ __device__ static constexpr int size() { return N; }
};

}  // namespace ws
