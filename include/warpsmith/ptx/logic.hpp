// Logic of three words at once (PTX ISA, "lop3").
#pragma once

#include <cstdint>

#include "warpsmith/device.hpp"

namespace ws::ptx {

// (a & b) | c in one instruction. Of two constants the compiler makes two, as an instruction has
// room for one: here it keeps the other in a register.
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t b, uint32_t c) {
#ifdef WS_EMULATED
  return (a & b) | c;
#else
  uint32_t result = 0;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#endif
}

}  // namespace ws::ptx
