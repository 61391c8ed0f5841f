// Stores to global memory (PTX ISA, "st"). thread/memory.hpp is what kernels call.
#pragma once

#include "warpsmith/ptx/load.hpp"

namespace ws::ptx {

// One access of kBytes = 1, 2, 4, 8 or 16; `global` is aligned to that.
template <Cache kCache, int kBytes>
__device__ __forceinline__ void st_global(void* global, const void* registers WS_AND_PLACE) {
  static_assert(kCache == Cache::kDefault || kCache == Cache::kStreaming, "of loads only");
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::store_global(global, registers, kBytes);
#else
  using Word = typename detail::WordOf<kBytes>::Type;
  const Word* from = static_cast<const Word*>(registers);
  Word* to = static_cast<Word*>(global);
  if constexpr (kCache == Cache::kDefault) {
    // Not an assignment, which may become several narrower stores, nor __stwb, which is a strong
    // one.
    if constexpr (kBytes == 16) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                   :
                   : "l"(to), "r"(from->x), "r"(from->y), "r"(from->z), "r"(from->w)
                   : "memory");
    } else if constexpr (kBytes == 8) {
      asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                   :
                   : "l"(to), "r"(from->x), "r"(from->y)
                   : "memory");
    } else {
      *to = *from;
    }
  } else {
    __stcs(to, *from);
  }
#endif
}

}  // namespace ws::ptx
