// Values of 8 bits, transposed in shared memory: wgmma takes B of 8 bits only where K, the keys, is
// contiguous, and they come by rows of a key.
//
// ldmatrix transposes elements of 16 bits, two columns of a key together; two such registers hold
// two columns of four keys, and bytes traded between them are a column of four keys each. So the
// keys of 16 come in the order 0, 1, 8, 9, 2, 3, 10, 11, ..., which is that of a thread's weights
// (pack_weights).
#pragma once

#include "kernels/attention/head_tile.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/stmatrix.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

template <class T, int kKeys, int kDim>
struct ValueTranspose {
  using From = HeadTile<T, kKeys, kDim>;
  using To = HeadTile<T, kDim, kKeys>;

  // Its `part` of a tile in so many parts, by a warp: pieces of 16 keys and 32 columns, of which it
  // loads eight before it stores one.
  __device__ __forceinline__ static void tile(T* from, T* to, int part, int parts) {
    constexpr int kWide = kDim / 32;
    constexpr int kPieces = 8;
    const int lane = lane_index();
    // Matrix lane / 8 of a store has every second of 16 columns, the odd ones where this is 1. In
    // half of its rows it is the other way round, so that the rows lie in different banks.
    const int row = lane % 8;
    const int odd = (lane / 8 + row / 4) % 2;
    const uint32_t select = lane / 4 < 4 ? 0x6420 : 0x7531;
    T* const first_from = From::chunk(from, lane % 16, lane / 16 * 16);
    T* const first_to = To::chunk(to, lane / 16 * 16 + row * 2 + odd, 0);
#pragma unroll 1
    for (int piece = part * kPieces; piece < kKeys / 16 * kWide; piece += parts * kPieces) {
      const int key = piece / kWide * 16;
      const int column = piece % kWide * 32;
      uint32_t keys[kPieces][4];  // two registers of 16 columns, two of the next
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        ptx::ldmatrix_x4<true>(
            keys[i], From::further(first_from, key + i / kWide * 16, column + i % kWide * 32));
      }
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint32_t columns[4] = {ptx::permute_bytes(keys[i][0], keys[i][1], select),
                                     ptx::permute_bytes(keys[i][0], keys[i][1], select ^ 0x1111),
                                     ptx::permute_bytes(keys[i][2], keys[i][3], select),
                                     ptx::permute_bytes(keys[i][2], keys[i][3], select ^ 0x1111)};
        ptx::stmatrix_x4(To::further(first_to, column + i % kWide * 32, key + i / kWide * 16),
                         columns);
      }
    }
  }
};

}  // namespace ws::attention
#endif
