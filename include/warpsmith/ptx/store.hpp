// Stores to global memory (PTX ISA, "st"). thread/memory.hpp is what kernels call.
#pragma once

#include "warpsmith/ptx/load.hpp"

namespace ws::ptx {

// One access of kBytes = 1, 2, 4, 8 or 16; `global` is aligned to that.
template <Cache kCache, int kBytes>
__device__ __forceinline__ void st_global(void* global, const void* registers) {
  static_assert(kCache != Cache::kReadOnly, "read-only memory takes no stores");
#ifdef WS_EMULATED
  detail::check_global(global, kBytes, "st.global");
  emulator::count(emulator::Count::kGlobalStores);
  emulator::count(emulator::Count::kGlobalStoreBytes, kBytes);
  std::memcpy(global, registers, kBytes);
#else
  using Word = typename detail::WordOf<kBytes>::Type;
  const Word* from = static_cast<const Word*>(registers);
  Word* to = static_cast<Word*>(global);
  if constexpr (kCache == Cache::kDefault) {
    // A plain assignment may become several narrower stores.
    __stwb(to, *from);
  } else {
    __stcs(to, *from);
  }
#endif
}

}  // namespace ws::ptx
