// Words by which threads of different blocks tell each other something, four or two in one access
// (PTX ISA, "ld.relaxed", "st.relaxed", .v4, .v2): each word is a flag by itself, as in flag.hpp,
// and may be seen before the others are. In the scope of the GPU.
#pragma once

#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/types.hpp"

namespace ws::ptx {

#ifdef WS_EMULATED
namespace detail {

inline void check_flag_vector(const char* name, const void* address, size_t bytes,
                              std::source_location place) {
  emulator::at(place);
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0) return;
  emulator::fail(emulator::Fault::kMisaligned, concatenate(name, ": the global address ", address,
                                                           " is not a multiple of ", bytes));
}

}  // namespace detail
#endif

// `flags` is aligned to all of its N words.
template <int N>
__device__ __forceinline__ Vec<uint32_t, N> ld_global_relaxed(const uint32_t* flags WS_AND_PLACE) {
  static_assert(N == 2 || N == 4);
  Vec<uint32_t, N> words;
#ifdef WS_EMULATED
  detail::check_flag_vector("ld.relaxed", flags, sizeof(words), place);
  for (int i = 0; i < N; ++i) words[i] = ld_relaxed<Scope::kGpu>(flags + i WS_PASS_AND_PLACE);
#else
  const size_t global = __cvta_generic_to_global(flags);
  if constexpr (N == 4) {
    asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(global)
                 : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.global.v2.b32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "l"(global)
                 : "memory");
  }
#endif
  return words;
}

template <int N>
__device__ __forceinline__ void st_global_relaxed(uint32_t* flags,
                                                  const Vec<uint32_t, N>& words WS_AND_PLACE) {
  static_assert(N == 2 || N == 4);
#ifdef WS_EMULATED
  detail::check_flag_vector("st.relaxed", flags, sizeof(words), place);
  for (int i = 0; i < N; ++i) st_relaxed<Scope::kGpu>(flags + i, words[i] WS_PASS_AND_PLACE);
#else
  const size_t global = __cvta_generic_to_global(flags);
  if constexpr (N == 4) {
    asm volatile("st.relaxed.gpu.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(global),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  } else {
    asm volatile("st.relaxed.gpu.global.v2.b32 [%0], {%1, %2};" ::"l"(global), "r"(words[0]),
                 "r"(words[1])
                 : "memory");
  }
#endif
}

}  // namespace ws::ptx
