// A word of codes as pairs that tensor cores take as they are: what is left of a conversion, and
// what has to be taken off afterwards.
#pragma once

#include <algorithm>
#include <limits>

#include "kernels/quantized/pairs.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::quantized {

struct WithoutTables {
  using Tables = Table;
  __device__ __forceinline__ static void fill(Tables& /*tables*/) {}
};

// Of the pairs that 0x000F000F takes out of a word and of its upper three bytes, then 0x00F000F0:
// the codes are 1, 5, 3, 7, 0, 4, 2, 6.
__host__ __device__ constexpr int place_of_nibble(int i) {
  return i % 2 * 4 + i / 2 % 2 * 2 + (i < 4 ? 1 : 0);
}

// What codes become, so that the sum over K of (pairs + offsets) x is, times kUnit, that of levels
// times x. The i-th is code place_of(i) of its word. The pairs of a word lie in kPlanes, each of
// which has a sum of its own; that of the second counts a sixteenth.
//
// Here levels themselves, by Pairs: nothing is added.
template <class T, Format kFormat>
struct Planes : Pairs<T, kFormat>, WithoutTables {
  static constexpr bool kHasOffset = false;
  static constexpr int kPlanes = 1;
  static constexpr float kUnit = 1;
  __host__ __device__ static constexpr int place_of(int i) { return i; }

  using Pairs<T, kFormat>::Pairs;
  __host__ __device__ static constexpr uint32_t kept(int zero) {
    return static_cast<uint32_t>(zero);
  }
};

constexpr uint32_t kMinusZeros = 0x80008000;  // -0 as halves

// A number below 1024 in a half's last bits *is* that number, times 2^-24.
template <>
struct Planes<half, Format::kInt4> : WithoutTables {
  static constexpr bool kHasOffset = true;
  static constexpr int kPlanes = 2;
  static constexpr int kCount = 4;
  static constexpr float kUnit = 0x1p24F;
  __host__ __device__ static constexpr int place_of(int i) { return place_of_nibble(i); }

  uint32_t pairs[kCount];

  __device__ __forceinline__ Planes(uint32_t word, int /*zero*/, Tables& /*tables*/)
      : pairs{word & 0x000F000FU, (word >> 8) & 0x000F000FU, word & 0x00F000F0U,
              (word >> 8) & 0x00F000F0U} {}
  __host__ __device__ static constexpr uint32_t kept(int zero) {
    return kMinusZeros | static_cast<uint32_t>(zero) * 0x00010001U;
  }
  __device__ __forceinline__ static uint32_t offset(uint32_t kept, int plane) {
    return plane == 0 ? kept : ptx::and_or(kept << 4, 0x00F000F0U, kMinusZeros);
  }
};

template <>
struct Planes<half, Format::kInt8> : WithoutTables {
  static constexpr bool kHasOffset = true;
  static constexpr int kPlanes = 1;
  static constexpr int kCount = 2;
  static constexpr float kUnit = 0x1p24F;
  __host__ __device__ static constexpr int place_of(int i) { return i; }

  uint32_t pairs[kCount];

  __device__ __forceinline__ Planes(uint32_t word, int /*zero*/, Tables& /*tables*/) {
    const uint32_t moved = word ^ 0x80808080U;  // from -128 ... 127 to 0 ... 255
    pairs[0] = ptx::permute_bytes(moved, 0, 0x4140);
    pairs[1] = ptx::permute_bytes(moved, 0, 0x4342);
  }
  __host__ __device__ static constexpr uint32_t kept(int zero) {
    return kMinusZeros | static_cast<uint32_t>(zero + 128) * 0x00010001U;
  }
  __device__ __forceinline__ static uint32_t offset(uint32_t kept, int /*plane*/) { return kept; }
};

// Bf16's last bits are whole numbers above 128.
template <>
struct Planes<bf16, Format::kInt4> : WithoutTables {
  static constexpr bool kHasOffset = true;
  static constexpr int kPlanes = 1;
  static constexpr int kCount = 4;
  static constexpr float kUnit = 1;
  __host__ __device__ static constexpr int place_of(int i) { return place_of_nibble(i); }

  uint32_t pairs[kCount];

  __device__ __forceinline__ Planes(uint32_t word, int /*zero*/, Tables& /*tables*/)
      : pairs{above(word), above(word >> 8), above(word >> 4), above(word >> 12)} {}
  __host__ __device__ static constexpr uint32_t kept(int zero) {
    return 0xC300C300U | static_cast<uint32_t>(zero) * 0x00010001U;  // -(128 + zero)
  }
  __device__ __forceinline__ static uint32_t offset(uint32_t kept, int /*plane*/) { return kept; }

 private:
  __device__ __forceinline__ static uint32_t above(uint32_t word) {
    return ptx::and_or(word, 0x000F000FU, 0x43004300U);
  }
};

// A byte's pair is looked up. Lane i's table has bank i to itself.
template <class T>
struct Planes<T, Format::kNf4> {
  struct Tables {
    Table levels;
    SharedArray<uint32_t, 256 * kWarpSize> pairs;
  };
  static constexpr bool kHasOffset = false;
  static constexpr int kPlanes = 1;
  static constexpr int kCount = 4;
  static constexpr float kUnit = 1;
  __host__ __device__ static constexpr int place_of(int i) { return i; }

  uint32_t pairs[kCount];

  __device__ __forceinline__ Planes(uint32_t word, int /*zero*/, Tables& tables) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      pairs[i] = tables.pairs[(word >> (8 * i) & 255) * kWarpSize + lane_index()];
    }
  }
  // By all threads, before a barrier; has one of its own.
  __device__ __forceinline__ static void fill(Tables& tables) {
    fill_table(tables.levels);
    ptx::barrier_sync();
    for (int byte = warp_index(); byte < 256; byte += block_threads() / kWarpSize) {
      const float first = tables.levels[byte >> 4];
      const float second = tables.levels[byte & 15];
      tables.pairs[byte * kWarpSize + lane_index()] = std::is_same_v<T, half>
                                                          ? ptx::cvt_rn_f16x2_f32(first, second)
                                                          : ptx::cvt_rn_bf16x2_f32(first, second);
    }
  }
  __host__ __device__ static constexpr uint32_t kept(int /*zero*/) { return 0; }
};

// What meets halves of x, of either dtype.
template <Format kFormat>
struct HalfPlanes : Planes<half, kFormat> {
  using Planes<half, kFormat>::Planes;
};

// A byte's pair is looked up, and lane i's table has bank i to itself, as code_ring's. Entries are
// 256 bytes apart, half of which nobody uses: so a permutation of bytes puts an address together.
template <>
struct HalfPlanes<Format::kNf4> {
  static constexpr int kPitch = 256;
  using Tables = SharedArray<uint8_t, 256 * kPitch>;
  static constexpr bool kHasOffset = false;
  static constexpr int kPlanes = 1;
  static constexpr int kCount = 4;
  static constexpr float kUnit = 1;
  __host__ __device__ static constexpr int place_of(int i) { return i; }

  uint32_t pairs[kCount];

  __device__ __forceinline__ HalfPlanes(uint32_t word, int /*zero*/, Tables& tables) {
    const auto lane = static_cast<uint32_t>(lane_index()) * 4;
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) {
      const uint32_t at = ptx::permute_bytes(word, lane, 0x5504 | i << 4);  // byte i * 256 + lane
      pairs[i] = SharedSpan<uint32_t>(reinterpret_cast<uint32_t*>(tables.pointer(at)), 1)[0];
    }
  }
  // By all threads, before a barrier. A thread's turns start apart, in other banks.
  __device__ __forceinline__ static void fill(Tables& tables) {
    for (int byte = thread_index(); byte < 256; byte += block_threads()) {
      const uint32_t pair = ptx::cvt_rn_f16x2_f32(nf4_level(byte >> 4), nf4_level(byte & 15));
      const Vec<uint32_t, 4> four{{pair, pair, pair, pair}};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        tables.store<16>(byte * kPitch + (i + byte) % 8 * 16,
                         std::bit_cast<Vec<uint8_t, 16>>(four));
      }
    }
  }
};

// Eight elements of x of 16 bits, which meet one word of eight codes or two of four, in the order
// in which Of has these.
template <class Of, int kOfWord>
__device__ __forceinline__ Vec<uint32_t, 4> in_order(const Vec<uint32_t, 4>& x) {
  const auto element = [&](int i) {
    const int at = i / kOfWord * kOfWord + Of::place_of(i % kOfWord);
    return x[at / 2] >> (at % 2 * 16) & 0xFFFF;
  };
  Vec<uint32_t, 4> ordered;
#pragma unroll
  for (int i = 0; i < 4; ++i) ordered[i] = element(2 * i) | element(2 * i + 1) << 16;
  return ordered;
}

template <class Of16>
__device__ __forceinline__ float element_of(const Vec<uint32_t, 4>& words, int i) {
  Of16 element;
  element.bits = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
  return to_float(element);
}

// Eight elements of x become halves; by all lanes of a warp, of which kLanes have a run. Returns
// the run's unit, 1 of f16. Those of bf16 become halves of up to 2^16, so that what is lost of an
// element is 2^-40 of the largest of its run (where that is above 2^-111), which is less than what
// sums in f32 lose.
template <class T, int kLanes>
__device__ __forceinline__ float become_halves(Vec<uint32_t, 4>& words) {
  if constexpr (std::is_same_v<T, half>) return 1;
  float most = 0;
  float values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    values[i] = element_of<T>(words, i);
    most = thread::max(most, fabsf(values[i]));
  }
  most = warp::all_reduce<kLanes>(most, [](float p, float q) { return thread::max(p, q); });
  const uint32_t exponent = std::bit_cast<uint32_t>(most) >> 23;
  // The largest becomes 2^15 to 2^16: the exponent 142. The least normal unit is 2^-126.
  const uint32_t of_unit = exponent < 16 ? 1 : (exponent < 255 ? exponent : 254) - 15;
  const float inverse = std::bit_cast<float>((254 - of_unit) << 23);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = ptx::cvt_rn_f16x2_f32(values[2 * i] * inverse, values[2 * i + 1] * inverse);
  }
  return std::bit_cast<float>(of_unit << 23);
}

// What rungs take that read codes and x by 16 bytes.
inline bool takes_whole_reads(const LinearCall& call, Why& why) {
  return codes_are_runs(call.weight, 256 / bits_of(call.weight.format), 16, why) &&
         takes_groups_side_by_side(call.weight, why) &&
         why.unless(has_aligned_rows(call.x, 2, 16),
                    "reads 16 bytes of x at a time: rows have to start at multiples of that");
}

// Rows so near that offsets in a strip of 32 rows of codes, and all of scales and zeros, are whole
// numbers of 32 bits.
inline bool rows_are_near(const Weight& w, Why& why) {
  const auto is_near = [&](const Matrix& matrix) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    return matrix.row >= 0 && matrix.row <= kMost / std::max<int64_t>(w.rows, 1);
  };
  return why.unless(
      is_near(w.scales) && is_near(w.zeros) && w.codes.row >= 0 && w.codes.row < (int64_t{1} << 27),
      "takes scales and zeros within 2^31 elements, rows of codes less than 2^27 bytes apart");
}

// f.template operator()<Kernel<T, kFormat>>() of a call's dtype and format.
template <template <class T, Format kFormat> class Kernel, class F>
decltype(auto) with_kernel_of(const LinearCall& call, const F& f) {
  return with_type<kHalves>(call.dtype, [&]<class T>() {
    return with_format(call.weight.format, [&]<Format kFormat>() {
      return f.template operator()<Kernel<T, kFormat>>();
    });
  });
}

}  // namespace ws::quantized
#endif
