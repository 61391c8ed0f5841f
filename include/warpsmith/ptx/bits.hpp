// Bits of a word (PTX ISA, "bfind", "brev"). Kernels do not call those of <bit>: nvcc compiles
// std::countr_zero of what it cannot know to the constant 32.
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

}  // namespace ws::ptx
