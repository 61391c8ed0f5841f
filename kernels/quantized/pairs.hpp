// A word of codes as pairs of f16 or bf16, which tensor cores take.
#pragma once

#include "kernels/quantized/codes.hpp"
#include "warpsmith/ptx/convert_e4m3x2.hpp"
#include "warpsmith/ptx/half.hpp"
#include "warpsmith/ptx/logic.hpp"

#if WS_DEVICE_CODE
namespace ws::quantized {

// A word's levels as pairs of T, in any order, and words of x in the same one.
template <class T, Format kFormat>
struct Pairs {
  static constexpr int kCount = Levels<kFormat>::kOfWord / 2;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int zero, Table& table) {
    const Levels<kFormat> levels(word, zero, table);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if constexpr (std::is_same_v<T, half>) {
        pairs[i] = ptx::cvt_rn_f16x2_f32(levels[2 * i], levels[2 * i + 1]);
      } else {
        pairs[i] = ptx::cvt_rn_bf16x2_f32(levels[2 * i], levels[2 * i + 1]);
      }
    }
  }
  __device__ __forceinline__ static void order(uint32_t (& /*x*/)[kCount]) {}
};

constexpr uint32_t kOnes = 0x3C003C00;        // 1 as halves
constexpr uint32_t kSixteenths = 0x2C002C00;  // 1 / 16
constexpr uint32_t kThousands = 0x64006400;   // 1024, whose last bit is 1

// The lower nibbles of bytes 0 and 2 are q below 1024's, the upper ones 16 q: no shifts.
template <>
struct Pairs<half, Format::kInt4> {
  static constexpr int kCount = 4;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int zero, Table& /*table*/)
      : Pairs(word, minus(zero)) {}
  // What one fma takes off the lower nibbles' pairs: -(1024 + zero).
  __host__ __device__ static constexpr uint32_t minus(int zero) {
    return 0xE400E400U + static_cast<uint32_t>(zero) * 0x00010001U;
  }
  __device__ __forceinline__ Pairs(uint32_t word, uint32_t lower_minus) {
    // -(64 + zero), whose last bit is 1 / 16
    const uint32_t upper_minus = lower_minus * 16 + (0xD400D400U - 16 * 0xE400E400U);
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const uint32_t bytes = i == 0 ? word : word >> 8;
      const uint32_t lower = ptx::and_or(bytes, 0x000F000FU, kThousands);
      const uint32_t upper = ptx::and_or(bytes, 0x00F000F0U, kThousands);
      pairs[i] = ptx::fma_rn_f16x2(lower, kOnes, lower_minus);
      pairs[i + 1] = ptx::fma_rn_f16x2(upper, kSixteenths, upper_minus);
    }
  }
  // Codes 1 and 5, 0 and 4, 3 and 7, 2 and 6.
  __device__ __forceinline__ static void order(uint32_t (&x)[kCount]) {
    const uint32_t in_order[kCount] = {x[0], x[1], x[2], x[3]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[2 * i] = ptx::permute_bytes(in_order[i], in_order[i + 2], 0x7632);
      x[2 * i + 1] = ptx::permute_bytes(in_order[i], in_order[i + 2], 0x5410);
    }
  }
};

template <>
struct Pairs<half, Format::kInt8> {
  static constexpr int kCount = 2;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int zero, Table& /*table*/)
      : Pairs(word, minus(zero)) {}
  // -(1024 + 128 + zero), whose last bit is 1
  __host__ __device__ static constexpr uint32_t minus(int zero) {
    return static_cast<uint32_t>(0xE480 + zero) * 0x00010001U;
  }
  __device__ __forceinline__ Pairs(uint32_t word, uint32_t minus) {
    const uint32_t moved = word ^ 0x80808080U;  // from -128 ... 127 to 0 ... 255
    pairs[0] = ptx::fma_rn_f16x2(ptx::permute_bytes(moved, kThousands, 0x5150), kOnes, minus);
    pairs[1] = ptx::fma_rn_f16x2(ptx::permute_bytes(moved, kThousands, 0x5352), kOnes, minus);
  }
  __device__ __forceinline__ static void order(uint32_t (& /*x*/)[kCount]) {}
};

// An e4m3 is a half.
template <>
struct Pairs<half, Format::kFp8> {
  static constexpr int kCount = 2;
  uint32_t pairs[kCount];

  __device__ __forceinline__ Pairs(uint32_t word, int /*zero*/, Table& /*table*/) {
    pairs[0] = ptx::cvt_rn_f16x2_e4m3x2(word);
    pairs[1] = ptx::cvt_rn_f16x2_e4m3x2(word >> 16);
  }
  __device__ __forceinline__ static void order(uint32_t (& /*x*/)[kCount]) {}
};

}  // namespace ws::quantized
#endif
