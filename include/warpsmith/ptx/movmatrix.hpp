// movmatrix: an 8x8 matrix of 16-bit elements that a warp holds, transposed (PTX ISA, "movmatrix").
// Lane i has elements 2 * (i % 4) and one more of row i / 4, the first in the low half, before and
// after: so what mma.sync leaves of a sum becomes its right operand.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t pair WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  struct Payload {
    uint32_t pair;
    uint32_t result;
  } mine{pair, 0};
  emulator::converge_aligned("movmatrix.trans", mine, [](auto lanes) {
    const auto element = [&](uint32_t row, uint32_t column) {
      return lanes[row * 4 + column / 2]->pair >> column % 2 * 16 & 0xFFFFU;
    };
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t row = lane / 4;
      const uint32_t column = lane % 4 * 2;
      lanes[lane]->result = element(column, row) | element(column + 1, row) << 16;
    }
  });
  return mine.result;
#else
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
#endif
}

}  // namespace ws::ptx
