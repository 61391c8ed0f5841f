// mma.sync: a warp multiplies small matrices held in its registers (PTX ISA, "mma"). One function
// for each shape; other input and accumulator types are further cases of the same functions.
#pragma once

#include <bit>

#include "warpsmith/types.hpp"

namespace ws::ptx {

#ifdef WS_EMULATED
namespace detail {

// Element i of a lane's: of two or four to a register, or floats.
template <class T>
float element_of(const uint32_t* registers, uint32_t i) {
  constexpr auto kWide = static_cast<uint32_t>(4 / sizeof(T));
  T value;
  value.bits = static_cast<decltype(value.bits)>(registers[i / kWide] >> (i % kWide * 32 / kWide));
  return to_float(value);
}
template <class T>
float element_of(const float* registers, uint32_t i) {
  return registers[i];
}
// f32 of which the tensor core does not see the last 13 bits.
struct Tf32 {
  uint32_t bits;
};
inline float to_float(Tf32 value) { return cut_to_tf32(std::bit_cast<float>(value.bits)); }
inline void set_element(uint32_t* registers, uint32_t i, float value) {
  const uint32_t shift = i % 2 * 16;
  registers[i / 2] &= 0xFFFF0000U >> shift;
  registers[i / 2] |= uint32_t{from_float<half>(value).bits} << shift;
}
inline void set_element(float* registers, uint32_t i, float value) { registers[i] = value; }

// The model of mma_m16n8k16, of the k32 of 8 bits and the k8 of TF32: sums in f32, rounded once
// where D is f16. (PTX promises no more of the sums than the accumulator's precision.)
template <class T, class Register>
void model_mma(const char* name, Register* d, const uint32_t* a, const uint32_t* b,
               const Register* c WS_AND_PLACE) {
  static constexpr auto kWide = static_cast<uint32_t>(4 / sizeof(T));  // elements of a register
  static constexpr uint32_t kDepth = 8 * kWide;
  emulator::at(place);
  struct Payload {
    Register* d;
    const uint32_t* a;
    const uint32_t* b;
    const Register* c;
  } mine{d, a, b, c};
  emulator::converge_aligned(name, mine, [](auto lanes) {
    emulator::count(emulator::Count::kMma);
    float left[16][kDepth];
    float right[kDepth][8];
    float sum[16][8];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const Payload& from = *lanes[lane];
      const uint32_t group = lane / 4;
      const uint32_t first = kWide * (lane % 4);
      for (uint32_t i = 0; i < 4 * kWide; ++i) {
        left[group + i / kWide % 2 * 8][first + i % kWide + i / (2 * kWide) * 4 * kWide] =
            element_of<T>(from.a, i);
      }
      for (uint32_t i = 0; i < 2 * kWide; ++i) {
        right[first + i % kWide + i / kWide * 4 * kWide][group] = element_of<T>(from.b, i);
      }
      for (uint32_t i = 0; i < 4; ++i) {
        sum[group + i / 2 * 8][2 * (lane % 4) + i % 2] = element_of<half>(from.c, i);
      }
    }
    for (uint32_t m = 0; m < 16; ++m) {
      for (uint32_t k = 0; k < kDepth; ++k) {
        for (uint32_t n = 0; n < 8; ++n) sum[m][n] += left[m][k] * right[k][n];
      }
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        set_element(lanes[lane]->d, i, sum[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2]);
      }
    }
  });
}

}  // namespace detail
#endif

// D = A * B + C, A [16, 16] and B [16, 8] of T (half or bf16), C and D [16, 8] of float; d may be
// c.
//
// With group = lane / 4 and pair = 2 * (lane % 4), and two elements to a register, low half first:
//   a[0] = A[group    ][pair, pair + 1]      a[2] = A[group    ][pair + 8, pair + 9]
//   a[1] = A[group + 8][pair, pair + 1]      a[3] = A[group + 8][pair + 8, pair + 9]
//   b[0] = B[pair, pair + 1][group]          b[1] = B[pair + 8, pair + 9][group]
//   d[0], d[1] = D[group][pair, pair + 1]    d[2], d[3] = D[group + 8][pair, pair + 1]
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2],
                                             const float (&c)[4] WS_AND_PLACE) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16>);
#ifdef WS_EMULATED
  detail::model_mma<T>("mma.sync.m16n8k16", d, a, b, c WS_PASS_AND_PLACE);
#else
  if constexpr (std::is_same_v<T, half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
  }
#endif
}

// The same with C and D of f16, two elements to a register; T is half.
//   d[0] = D[group][pair, pair + 1]          d[1] = D[group + 8][pair, pair + 1]
template <class T>
__device__ __forceinline__ void mma_m16n8k16(uint32_t (&d)[2], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2],
                                             const uint32_t (&c)[2] WS_AND_PLACE) {
  static_assert(std::is_same_v<T, half>);
#ifdef WS_EMULATED
  detail::model_mma<T>("mma.sync.m16n8k16", d, a, b, c WS_PASS_AND_PLACE);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
      : "=r"(d[0]), "=r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
#endif
}

// D = A * B + C, A [16, 32] and B [32, 8] of e4m3, C and D [16, 8] of float as above; sm_89. With
// group = lane / 4 and four = 4 * (lane % 4), and four elements to a register, lowest byte first:
//   a[0] = A[group    ][four ... four + 3]    a[2] = A[group    ][four + 16 ... four + 19]
//   a[1] = A[group + 8][four ... four + 3]    a[3] = A[group + 8][four + 16 ... four + 19]
//   b[0] = B[four ... four + 3][group]        b[1] = B[four + 16 ... four + 19][group]
template <class T>
__device__ __forceinline__ void mma_m16n8k32(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2],
                                             const float (&c)[4] WS_AND_PLACE) {
  static_assert(std::is_same_v<T, e4m3>);
#ifdef WS_EMULATED
  detail::model_mma<T>("mma.sync.m16n8k32", d, a, b, c WS_PASS_AND_PLACE);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
#endif
}

// D = A * B + C, A [16, 8] and B [8, 8] of f32, of which TF32 is multiplied (the last 13 bits are
// cut off), C and D [16, 8] as above. With group = lane / 4 and in_group = lane % 4:
//   a[0] = A[group    ][in_group]    a[2] = A[group    ][in_group + 4]
//   a[1] = A[group + 8][in_group]    a[3] = A[group + 8][in_group + 4]
//   b[0] = B[in_group][group]        b[1] = B[in_group + 4][group]
__device__ __forceinline__ void mma_m16n8k8(float (&d)[4], const uint32_t (&a)[4],
                                            const uint32_t (&b)[2],
                                            const float (&c)[4] WS_AND_PLACE) {
#ifdef WS_EMULATED
  detail::model_mma<detail::Tf32>("mma.sync.m16n8k8", d, a, b, c WS_PASS_AND_PLACE);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
#endif
}

}  // namespace ws::ptx
