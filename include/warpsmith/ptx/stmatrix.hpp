// stmatrix: 8x8 matrices of 16-bit elements from the registers of a warp to shared memory, the
// reverse of ldmatrix (PTX ISA, "stmatrix"). sm_90. Rows, addresses and fragments are as in
// ldmatrix.hpp; with kTranspose the fragments are those of the transposed matrices.
#pragma once

#include <cstring>

#include "warpsmith/ptx/address.hpp"

#ifdef WS_EMULATED
#include "emulator/profile.hpp"
#endif

namespace ws::ptx {

#ifdef WS_EMULATED
namespace detail {
template <bool kTranspose, int kMatrices>
void store_matrices(void* shared_row, const uint32_t (&registers)[kMatrices]) {
  constexpr const char* kName = kTranspose ? "stmatrix.trans" : "stmatrix";
  struct Payload {
    void* row;
    const uint32_t* registers;
  } mine{shared_row, registers};
  if (lane_index() < 8 * kMatrices) emulator::check_shared(shared_row, 16, 16, kName);
  emulator::profile_row(kName, shared_row, lane_index() < 8 * kMatrices);
  emulator::converge_aligned(kName, mine, [](auto lanes) {
    emulator::count(emulator::Count::kSharedStoreBytes, 128 * kMatrices);
    for (uint32_t m = 0; m < kMatrices; ++m) {
      uint16_t matrix[8][8];
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t row = lane / 4;
        const uint32_t column = 2 * (lane % 4);
        const uint32_t pair = lanes[lane]->registers[m];
        (kTranspose ? matrix[column][row] : matrix[row][column]) = static_cast<uint16_t>(pair);
        (kTranspose ? matrix[column + 1][row] : matrix[row][column + 1]) =
            static_cast<uint16_t>(pair >> 16);
      }
      for (uint32_t row = 0; row < 8; ++row) {
        emulator::write_shared(lanes[8 * m + row]->row, matrix[row], 16, kName);
      }
    }
  });
}
}  // namespace detail
#endif

template <bool kTranspose = false>
__device__ __forceinline__ void stmatrix_x1(void* shared_row, const uint32_t (&r)[1] WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::store_matrices<kTranspose>(shared_row, r);
#else
  if constexpr (kTranspose) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(
                     shared_address(shared_row)),
                 "r"(r[0])
                 : "memory");
  } else {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(shared_address(shared_row)),
        "r"(r[0])
        : "memory");
  }
#endif
}

template <bool kTranspose = false>
__device__ __forceinline__ void stmatrix_x2(void* shared_row, const uint32_t (&r)[2] WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::store_matrices<kTranspose>(shared_row, r);
#else
  if constexpr (kTranspose) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                     shared_address(shared_row)),
                 "r"(r[0]), "r"(r[1])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(
                     shared_address(shared_row)),
                 "r"(r[0]), "r"(r[1])
                 : "memory");
  }
#endif
}

template <bool kTranspose = false>
__device__ __forceinline__ void stmatrix_x4(void* shared_row, const uint32_t (&r)[4] WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::store_matrices<kTranspose>(shared_row, r);
#else
  if constexpr (kTranspose) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(shared_row)),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  } else {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(shared_row)),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  }
#endif
}

}  // namespace ws::ptx
