// Conversions between f32 and the narrow floats (PTX ISA, "cvt"), on bit patterns: types.hpp wraps
// them. Narrowing rounds to nearest, ties to even; f16 and bf16 overflow to infinity, the fp8
// formats saturate at their largest finite value; NaN becomes the format's canonical NaN. All of
// them run on the host too, for references and the emulator.
#pragma once

#include <bit>
#include <cstdint>

#include "warpsmith/device.hpp"

namespace ws::ptx {

namespace detail {

// A float format of 1 sign bit, kExponent exponent bits and kMantissa mantissa bits.
template <int kExponent, int kMantissa>
struct NarrowFloat {
  static constexpr int kShift = 23 - kMantissa;  // f32's mantissa bits below the narrow ones
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (kExponent + kMantissa);

  static constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
  }

  // Patterns above `largest` become `overflow`, which is largest + 1 where that is infinity.
  __host__ __device__ static constexpr uint32_t narrow(float value, uint32_t largest,
                                                       uint32_t overflow, uint32_t nan) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return nan;
    uint32_t rounded = 0;
    if (kBias < 127 && magnitude < static_cast<uint32_t>(128 - kBias) << 23) {
      // Subnormal in the narrow format: adding a number whose last bit weighs as much as the
      // subnormals' last bit lets the f32 adder round.
      const float anchor = power_of_two(1 - kBias - kMantissa + 23);
      rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + anchor) -
                std::bit_cast<uint32_t>(anchor);
    } else {
      const uint32_t half_minus_one = (1u << (kShift - 1)) - 1;
      const uint32_t odd = (magnitude >> kShift) & 1u;
      rounded =
          (magnitude - (static_cast<uint32_t>(127 - kBias) << 23) + half_minus_one + odd) >> kShift;
    }
    if (rounded > largest) rounded = overflow;
    return rounded | ((bits >> 31) * kSign);
  }

  // Patterns from `special` on are infinity and NaN, which look the same in f32 but for the shift.
  __host__ __device__ static constexpr float widen(uint32_t bits, uint32_t special) {
    const uint32_t magnitude = bits & (kSign - 1);
    const uint32_t sign = (bits & kSign) != 0 ? 0x80000000u : 0u;
    uint32_t wide = magnitude << kShift;
    if (magnitude >= special) {
      wide |= 0x7F800000u;
    } else if (kBias < 127) {
      // Exact also for subnormals, which f32 normalises.
      wide = std::bit_cast<uint32_t>(std::bit_cast<float>(wide) * power_of_two(127 - kBias));
    }
    return std::bit_cast<float>(wide | sign);
  }
};

using Float16 = NarrowFloat<5, 10>;
using Bfloat16 = NarrowFloat<8, 7>;
using FloatE4m3 = NarrowFloat<4, 3>;
using FloatE5m2 = NarrowFloat<5, 2>;

}  // namespace detail

// ---- f16 ---------------------------------------------------------------------------------------

__host__ __device__ __forceinline__ uint16_t cvt_rn_f16_f32(float value) {
#if defined(__CUDA_ARCH__) && !defined(WS_EMULATED)
  uint16_t bits = 0;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return static_cast<uint16_t>(detail::Float16::narrow(value, 0x7BFF, 0x7C00, 0x7FFF));
#endif
}

__host__ __device__ __forceinline__ float cvt_f32_f16(uint16_t bits) {
#if defined(__CUDA_ARCH__) && !defined(WS_EMULATED)
  float value = 0;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return detail::Float16::widen(bits, 0x7C00);
#endif
}

// Two values at once: `low` in bits 0-15, `high` in bits 16-31.
__host__ __device__ __forceinline__ uint32_t cvt_rn_f16x2_f32(float low, float high) {
#if defined(__CUDA_ARCH__) && !defined(WS_EMULATED)
  uint32_t bits = 0;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return cvt_rn_f16_f32(low) | (static_cast<uint32_t>(cvt_rn_f16_f32(high)) << 16);
#endif
}

// ---- bf16 --------------------------------------------------------------------------------------

__host__ __device__ __forceinline__ uint16_t cvt_rn_bf16_f32(float value) {
#if defined(__CUDA_ARCH__) && !defined(WS_EMULATED)
  uint16_t bits = 0;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return static_cast<uint16_t>(detail::Bfloat16::narrow(value, 0x7F7F, 0x7F80, 0x7FFF));
#endif
}

// bf16 is the upper half of f32: no instruction is needed.
__host__ __device__ __forceinline__ float cvt_f32_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

__host__ __device__ __forceinline__ uint32_t cvt_rn_bf16x2_f32(float low, float high) {
#if defined(__CUDA_ARCH__) && !defined(WS_EMULATED)
  uint32_t bits = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return cvt_rn_bf16_f32(low) | (static_cast<uint32_t>(cvt_rn_bf16_f32(high)) << 16);
#endif
}

// ---- TF32: f32 of which the last 13 bits are zero ----------------------------------------------

// What tensor cores see of an f32.
__host__ __device__ __forceinline__ constexpr float cut_to_tf32(float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000u);
}

// To nearest, of two as near the even one: an instruction from sm_90 on, arithmetic on bits before.
// An f32 that rounds beyond the largest becomes infinite.
__host__ __device__ __forceinline__ float cvt_rn_tf32_f32(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !defined(WS_EMULATED)
  uint32_t bits = 0;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
#else
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return std::bit_cast<float>(0x7FFFFFFFu);
  return cut_to_tf32(std::bit_cast<float>(bits + 0xFFFu + (bits >> 13 & 1u)));
#endif
}

// The same with ties away from zero, the only way of sm_80.
__host__ __device__ __forceinline__ float cvt_rna_tf32_f32(float value) {
#if defined(__CUDA_ARCH__) && !defined(WS_EMULATED)
  uint32_t bits = 0;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
#else
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return std::bit_cast<float>(0x7FFFFFFFu);
  return cut_to_tf32(std::bit_cast<float>(bits + 0x1000u));
#endif
}

// ---- fp8: instructions from sm_89 on, the bit arithmetic of the host before --------------------

__host__ __device__ __forceinline__ uint16_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(WS_EMULATED)
  uint16_t bits = 0;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
#else
  const auto narrow = [](float v) { return detail::FloatE4m3::narrow(v, 0x7E, 0x7E, 0x7F); };
  return static_cast<uint16_t>(narrow(low) | (narrow(high) << 8));
#endif
}

// Four, the first in the lowest byte: as one piece of code, where the compiler sees the second
// instruction put its half beside the first's.
__device__ __forceinline__ uint32_t cvt_rn_satfinite_e4m3x4_f32(const float (&v)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(WS_EMULATED)
  uint32_t bits = 0;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(bits)
      : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
  return bits;
#else
  const uint32_t low = cvt_rn_satfinite_e4m3x2_f32(v[0], v[1]);
  return low | static_cast<uint32_t>(cvt_rn_satfinite_e4m3x2_f32(v[2], v[3])) << 16;
#endif
}

__host__ __device__ __forceinline__ uint16_t cvt_rn_satfinite_e5m2x2_f32(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(WS_EMULATED)
  uint16_t bits = 0;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
#else
  const auto narrow = [](float v) { return detail::FloatE5m2::narrow(v, 0x7B, 0x7B, 0x7F); };
  return static_cast<uint16_t>(narrow(low) | (narrow(high) << 8));
#endif
}

__host__ __device__ __forceinline__ float cvt_f32_e4m3(uint8_t bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(WS_EMULATED)
  uint32_t pair = 0;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(bits)));
  return cvt_f32_f16(static_cast<uint16_t>(pair));
#else
  return detail::FloatE4m3::widen(bits, 0x7F);
#endif
}

__host__ __device__ __forceinline__ float cvt_f32_e5m2(uint8_t bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(WS_EMULATED)
  uint32_t pair = 0;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(bits)));
  return cvt_f32_f16(static_cast<uint16_t>(pair));
#else
  return detail::FloatE5m2::widen(bits, 0x7C);
#endif
}

}  // namespace ws::ptx
