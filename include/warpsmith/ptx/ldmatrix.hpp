// ldmatrix: 8x8 matrices of 16-bit elements from shared memory into the registers of a warp (PTX
// ISA, "ldmatrix").
//
// Lane i gives the address of row i % 8 of matrix i / 8, 16 bytes, aligned to 16; lanes beyond the
// last matrix are not asked. Register m of lane i receives elements 2 * (i % 4) and one more of row
// i / 4 of matrix m, the first in the low half: the fragment layout of mma.sync. With kTranspose it
// receives those of the transposed matrix.
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
void load_matrices(uint32_t (&registers)[kMatrices], const void* shared_row) {
  constexpr const char* kName = kTranspose ? "ldmatrix.trans" : "ldmatrix";
  struct Payload {
    const void* row;
    uint32_t* registers;
  } mine{shared_row, registers};
  if (lane_index() < 8 * kMatrices) emulator::check_shared(shared_row, 16, 16, kName);
  emulator::profile_row(kName, shared_row, lane_index() < 8 * kMatrices);
  emulator::converge_aligned(kName, mine, [](auto lanes) {
    emulator::count(emulator::Count::kSharedLoadBytes, 128 * kMatrices);
    bool written = false;
    for (uint32_t m = 0; m < kMatrices; ++m) {
      uint16_t matrix[8][8];
      for (uint32_t row = 0; row < 8; ++row) {
        written |= emulator::read_shared_row(lanes[8 * m + row]->row, 16, kName);
        std::memcpy(matrix[row], lanes[8 * m + row]->row, 16);
      }
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t row = lane / 4;
        const uint32_t column = 2 * (lane % 4);
        const uint32_t low = kTranspose ? matrix[column][row] : matrix[row][column];
        const uint32_t high = kTranspose ? matrix[column + 1][row] : matrix[row][column + 1];
        lanes[lane]->registers[m] = low | (high << 16);
      }
    }
    if (!written) emulator::read_shared(lanes[0]->row, 16, kName);  // a fault
  });
}
}  // namespace detail
#endif

template <bool kTranspose = false>
__device__ __forceinline__ void ldmatrix_x1(uint32_t (&r)[1], const void* shared_row WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::load_matrices<kTranspose>(r, shared_row);
#else
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(shared_address(shared_row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(shared_address(shared_row))
                 : "memory");
  }
#endif
}

template <bool kTranspose = false>
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* shared_row WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::load_matrices<kTranspose>(r, shared_row);
#else
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(shared_row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(shared_row))
                 : "memory");
  }
#endif
}

template <bool kTranspose = false>
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared_row WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  detail::load_matrices<kTranspose>(r, shared_row);
#else
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared_row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared_row))
                 : "memory");
  }
#endif
}

}  // namespace ws::ptx
