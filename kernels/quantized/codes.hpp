// What rungs share: where a weight's codes lie, and codes as numbers.
#pragma once

#include <bit>
#include <utility>

#include "kernels/quantized/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/convert_e4m3x2.hpp"
#include "warpsmith/ptx/logic.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::quantized {

// ---- Which rungs take a call --------------------------------------------------------------------

inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

// Columns side by side, rows that start at multiples of `bytes`.
inline bool has_aligned_rows(const Matrix& matrix, int64_t element_bytes, int64_t bytes) {
  return matrix.column == 1 && is_aligned(matrix.data, bytes) &&
         matrix.row * element_bytes % bytes == 0;
}

// Runs of `columns`, which do not straddle groups, as accesses of `bytes` of codes.
inline bool codes_are_runs(const Weight& w, int64_t columns, int64_t bytes, Why& why) {
  return why.unless(has_aligned_rows(w.codes, 1, bytes), "reads ", bytes,
                    " bytes of codes at a time: rows have to start at multiples of that") &&
         why.unless(w.columns % columns == 0 && w.group % columns == 0, "takes whole runs of ",
                    columns, " columns, not K = ", w.columns, " in groups of ", w.group) &&
         why.unless(w.columns < (int64_t{1} << 31), "takes fewer than 2^31 columns, not ",
                    w.columns);
}

// A row's scales, and its zeros, follow each other.
inline bool takes_groups_side_by_side(const Weight& w, Why& why) {
  return why.unless(
      w.groups <= 1 || (w.scales.column == 1 && (w.zeros.data == nullptr || w.zeros.column == 1)),
      "takes scales and zeros of a row that lie side by side");
}

// f.operator()<kFormat>().
template <class F>
decltype(auto) with_format(Format format, F&& f) {
  switch (format) {
    case Format::kInt8: return f.template operator()<Format::kInt8>();
    case Format::kInt4: return f.template operator()<Format::kInt4>();
    case Format::kNf4: return f.template operator()<Format::kNf4>();
    case Format::kFp8: break;
  }
  return f.template operator()<Format::kFp8>();
}

}  // namespace ws::quantized

#if WS_DEVICE_CODE
namespace ws::quantized {

// ---- One code -----------------------------------------------------------------------------------

// An entry of nf4's table, which a kernel cannot index: by 15 selects.
template <int... kCodes>
__device__ __forceinline__ float nf4_level(int code, std::integer_sequence<int, kCodes...>) {
  float level = 0;
  const auto choose = [&]<int kCode>() {
    constexpr float kLevel = kNf4Levels[kCode];
    if (code == kCode) level = kLevel;
  };
  (choose.template operator()<kCodes>(), ...);
  return level;
}
__device__ __forceinline__ float nf4_level(int code) {
  return nf4_level(code, std::make_integer_sequence<int, 16>{});
}

__device__ __forceinline__ float scale_at(const Weight& w, int64_t n, int64_t group) {
  return thread::load(w.scales.as<const float>() + n * w.scales.row + group * w.scales.column);
}
// The code of 0, in a format of whole numbers.
__device__ __forceinline__ int zero_at(const Weight& w, int64_t n, int64_t group) {
  if (w.zeros.data == nullptr) return middle_of(w.format);
  return zero_of(w.format, thread::load(w.zeros.as<const uint8_t>() + n * w.zeros.row +
                                        group * w.zeros.column));
}
__device__ __forceinline__ float level_at(const Weight& w, int64_t n, int64_t k, int zero) {
  const uint8_t* row = w.codes.as<const uint8_t>() + n * w.codes.row;
  if (bits_of(w.format) == 8) {
    const uint8_t code = thread::load(row + k * w.codes.column);
    if (w.format == Format::kFp8) return ptx::cvt_f32_e4m3(code);
    return static_cast<float>(static_cast<int8_t>(code) - zero);
  }
  const int byte = thread::load(row + k / 2 * w.codes.column);
  const int code = k % 2 == 0 ? byte >> 4 : byte & 15;
  return w.format == Format::kNf4 ? nf4_level(code) : static_cast<float>(code - zero);
}

// ---- Words of codes -----------------------------------------------------------------------------

// nf4's table where lanes may look up what they like: 16 entries are in 16 banks.
using Table = SharedArray<float, 16>;

// By all threads of a block, before a barrier.
__device__ __forceinline__ void fill_table(Table& table) {
  if (thread_index() < 16) table[thread_index()] = nf4_level(thread_index());
}

// The levels of a word's codes. A number below 2^23 in the last bits of 2^23 as a float needs no
// conversion, which an SM does 16 of in a clock: it takes an addition, which it does 128 of.
template <Format kFormat>
struct Levels {
  static constexpr int kOfWord = 32 / bits_of(kFormat);
  static constexpr uint32_t kMagic = 0x4B000000;  // 2^23

  float values[kOfWord];

  __device__ __forceinline__ Levels(uint32_t word, [[maybe_unused]] int zero,
                                    [[maybe_unused]] Table& table) {
    if constexpr (kFormat == Format::kInt8) {
      const uint32_t moved = word ^ 0x80808080U;  // from -128 ... 127 to 0 ... 255
#pragma unroll
      for (int i = 0; i < kOfWord; ++i) {
        const uint32_t bits = ptx::permute_bytes(moved, kMagic, 0x7440U + static_cast<uint32_t>(i));
        values[i] = std::bit_cast<float>(bits) - (0x1p23F + 128 + static_cast<float>(zero));
      }
    } else if constexpr (kFormat == Format::kFp8) {
#pragma unroll
      for (int i = 0; i < kOfWord; i += 2) {
        const uint32_t pair = ptx::cvt_rn_f16x2_e4m3x2(word >> (8 * i));
        values[i] = ptx::cvt_f32_f16(static_cast<uint16_t>(pair));
        values[i + 1] = ptx::cvt_f32_f16(static_cast<uint16_t>(pair >> 16));
      }
    } else if constexpr (kFormat == Format::kNf4) {
#pragma unroll
      for (int i = 0; i < kOfWord; ++i) values[place_of(i)] = table[word >> (4 * i) & 15];
    } else {
      // Four nibbles without a shift: the one i places up is 16^i times as much.
      constexpr float kWeights[] = {1, 0x1p-4F, 0x1p-8F, 0x1p-12F};
#pragma unroll
      for (int i = 0; i < kOfWord; ++i) {
        const uint32_t nibbles = i < 4 ? word : word >> 16;
        const uint32_t bits = ptx::and_or(nibbles, 15U << (4 * (i % 4)), kMagic);
        const float weight = kWeights[i % 4];
        values[place_of(i)] = thread::fma(std::bit_cast<float>(bits), weight,
                                          -(0x1p23F * weight + static_cast<float>(zero)));
      }
    }
  }
  // Of the i-th nibble from below: the upper half of a byte is first.
  static constexpr int place_of(int i) { return i ^ 1; }
  __device__ __forceinline__ float operator[](int i) const { return values[i]; }
};

}  // namespace ws::quantized
#endif
