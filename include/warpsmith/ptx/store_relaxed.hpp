// Stores that do not race with each other (PTX ISA, "st.relaxed"): where several threads store to
// one place, what one of them stores stands. In the scope of the GPU; T: 2, 4 or 8 bytes.
#pragma once

#include "warpsmith/ptx/flag.hpp"

namespace ws::ptx {

template <class T>
__device__ __forceinline__ void st_global_relaxed(T* global,
                                                  std::type_identity_t<T> value WS_AND_PLACE) {
#ifndef WS_EMULATED
  if constexpr (sizeof(T) == 2) {
    asm volatile("st.relaxed.gpu.global.b16 [%0], %1;" ::"l"(__cvta_generic_to_global(global)),
                 "h"(std::bit_cast<uint16_t>(value))
                 : "memory");
  } else {
    st_relaxed<Scope::kGpu>(global, value);
  }
#else
  emulator::at(place);
  emulator::store_strong(global, &value, sizeof(T), {});
#endif
}

}  // namespace ws::ptx
