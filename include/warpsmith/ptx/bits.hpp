// Bits and bytes of words (PTX ISA, "bfind", "brev", "popc", "prmt", "shf"). Kernels do not call
// those of <bit>: nvcc compiles std::countr_zero of what it cannot know to the constant 32.
#pragma once

#include <bit>
#include <cstdint>

#include "warpsmith/device.hpp"

namespace ws::ptx {

// The place of the lowest bit that is set, of a word that is not zero: of a ballot, the first lane.
__device__ __forceinline__ int lowest_bit(uint32_t word) {
#ifdef WS_EMULATED
  return std::countr_zero(word);
#else
  return __ffs(static_cast<int>(word)) - 1;
#endif
}

// How many zeros are above the highest bit that is set: 32 of zero.
__device__ __forceinline__ int leading_zeros(uint32_t word) {
#ifdef WS_EMULATED
  return std::countl_zero(word);
#else
  return __clz(static_cast<int>(word));
#endif
}

// How many bits are set.
__device__ __forceinline__ int count_bits(uint32_t word) {
#ifdef WS_EMULATED
  return std::popcount(word);
#else
  return __popc(word);
#endif
}

// Four of the eight bytes of `low` (0 to 3) and `high` (4 to 7): byte i of the result is the one
// that nibble i of `selector`, 0 to 7, names.
__device__ __forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef WS_EMULATED
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t chosen = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t byte = selector >> (4 * i) & 7;
    chosen |= static_cast<uint32_t>(bytes >> (8 * byte) & 0xFF) << (8 * i);
  }
  return chosen;
#else
  return __byte_perm(low, high, selector);
#endif
}

// The word that begins at bit `bits`, 0 to 31, of the two: `low` comes first.
__device__ __forceinline__ uint32_t funnel_shift(uint32_t low, uint32_t high, uint32_t bits) {
#ifdef WS_EMULATED
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (bits & 31));
#else
  return __funnelshift_r(low, high, bits);
#endif
}

}  // namespace ws::ptx
