// Additions of 16 bytes at once to global memory, relaxed, in the scope of the GPU (PTX ISA, "red",
// .v4): each element is atomic by itself. One instruction since sm_90; before, one for each word.
#pragma once

#include <cstring>

#include "warpsmith/ptx/atomic.hpp"

namespace ws::ptx {

#ifdef WS_EMULATED
namespace detail {

inline void check_vector_address(const void* address, std::source_location place) {
  emulator::at(place);
  if (reinterpret_cast<uintptr_t>(address) % 16 == 0) return;
  emulator::fail(emulator::Fault::kMisaligned, concatenate("red.global.add.v4: the global address ",
                                                           address, " is not a multiple of 16"));
}

}  // namespace detail
#endif

// *(address + i) += value[i]; the address is a multiple of 16 bytes.
__device__ __forceinline__ void red_global_add(float* address,
                                               const Vec<float, 4>& value WS_AND_PLACE) {
#if !defined(WS_EMULATED) && __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                   __cvta_generic_to_global(address)),
               "f"(value[0]), "f"(value[1]), "f"(value[2]), "f"(value[3])
               : "memory");
#else
#ifdef WS_EMULATED
  detail::check_vector_address(address, place);
#endif
#pragma unroll
  for (int i = 0; i < 4; ++i) red_global_add(address + i, value[i] WS_PASS_AND_PLACE);
#endif
}

// The same of eight half or bf16, each sum rounded to nearest even.
template <class T>
__device__ __forceinline__ void red_global_add_noftz_x8(T* address,
                                                        const Vec<T, 8>& value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16>);
#if !defined(WS_EMULATED) && __CUDA_ARCH__ >= 900
  const size_t global = __cvta_generic_to_global(address);
  uint32_t words[4];
  memcpy(words, &value, sizeof(words));
  if constexpr (std::is_same_v<T, half>) {
    asm volatile("red.relaxed.gpu.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(global),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(global),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
#else
#ifdef WS_EMULATED
  detail::check_vector_address(address, place);
#endif
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    Vec<T, 2> pair;
    pair[0] = value[i];
    pair[1] = value[i + 1];
    red_global_add_noftz_x2(address + i, pair WS_PASS_AND_PLACE);
  }
#endif
}

}  // namespace ws::ptx
