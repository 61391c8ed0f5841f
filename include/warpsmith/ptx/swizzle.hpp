// The swizzles of tensor maps and wgmma descriptors (PTX ISA, "Swizzling modes"): which bank a
// 16-byte chunk of shared memory lies in depends on its row, so that a column of chunks touches all
// banks. One pattern for all: a tile can be written by a tensor copy and read by wgmma, ldmatrix or
// plain loads.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

// kN: rows of N bytes; among rows that share the 32 banks, the 16-byte chunks trade places.
enum class Swizzle { kNone, k32, k64, k128 };

// Bytes of a row of the pattern; without swizzle, the one chunk of a core matrix.
__host__ __device__ constexpr int swizzle_row_bytes(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::kNone: return 16;
    case Swizzle::k32: return 32;
    case Swizzle::k64: return 64;
    case Swizzle::k128: return 128;
  }
  return 0;
}

// The pattern whose rows have so many bytes; none where there is no such.
__host__ __device__ constexpr Swizzle swizzle_of_row(int bytes) {
  switch (bytes) {
    case 32: return Swizzle::k32;
    case 64: return Swizzle::k64;
    case 128: return Swizzle::k128;
    default: return Swizzle::kNone;
  }
}

// Bytes after which the pattern repeats. Tiles start at a multiple of it (tensor copies ask for 128
// at least).
__host__ __device__ constexpr int swizzle_period(Swizzle swizzle) {
  return 8 * swizzle_row_bytes(swizzle);
}

// Where the byte at `offset` of the plain tile lies in the swizzled one: address bits 7 and up (the
// 128-byte line) are xored into the chunk number, bits 4 and up. Its own inverse. `offset` counts
// from a multiple of swizzle_period.
__host__ __device__ constexpr uint32_t swizzled(Swizzle swizzle, uint32_t offset) {
  const uint32_t chunks = static_cast<uint32_t>(swizzle_row_bytes(swizzle)) / 16;
  return offset ^ ((offset >> 3) & ((chunks - 1) << 4));
}

// Byte offset of 16-byte chunk `chunk` of row `row` in a tile whose rows are one pattern row long.
template <Swizzle kSwizzle>
__host__ __device__ constexpr uint32_t swizzled_chunk(uint32_t row, uint32_t chunk) {
  return swizzled(kSwizzle, row * static_cast<uint32_t>(swizzle_row_bytes(kSwizzle)) + chunk * 16);
}

}  // namespace ws::ptx
