// Lanes that agree (PTX ISA, "vote.sync").
#pragma once

#include "warpsmith/ptx/vote.hpp"

namespace ws::ptx {

// The lanes, of all 32, whose word is zero where the caller's is, or is not where the caller's is
// not. With a ballot and a choice, the compiler makes the predicate of a word twice.
__device__ __forceinline__ uint32_t vote_sync_alike(uint32_t word WS_AND_PLACE) {
#ifdef WS_EMULATED
  const uint32_t ballot = vote_sync_ballot(kFullMask, word != 0, place);
  return word != 0 ? ballot : ~ballot;
#else
  uint32_t alike = 0;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %1, 0;\n"
      "vote.sync.ballot.b32 %0, p, 0xffffffff;\n"
      "@!p not.b32 %0, %0;\n"
      "}"
      : "=r"(alike)
      : "r"(word));
  return alike;
#endif
}

}  // namespace ws::ptx
