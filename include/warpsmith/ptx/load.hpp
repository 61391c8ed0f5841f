// Loads from global memory (PTX ISA, "ld", "ld.global.nc"). thread/memory.hpp is what kernels call.
#pragma once

#include <cstdint>
#include <cstring>

#include "warpsmith/device.hpp"

#ifdef WS_EMULATED
#include "emulator/global_memory.hpp"
#endif

namespace ws {

// What the caches should expect of an access.
enum class Cache {
  kDefault,    // ld.global, st.global: kept as long as others need the space less
  kStreaming,  // .cs: used once, so first to be evicted, in L1 and L2
  kReadOnly,   // ld.global.nc: nothing writes it while the kernel runs; loads only
  kPassing,    // .L1::no_allocate: used once, and the L1 has others to keep; as kReadOnly
};

namespace ptx {

namespace detail {

#ifndef WS_EMULATED
// The register type of one access.
template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = unsigned char;
};  // NOLINT
template <>
struct WordOf<2> {
  using Type = unsigned short;
};  // NOLINT(google-runtime-int)
template <>
struct WordOf<4> {
  using Type = unsigned int;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};
#endif

}  // namespace detail

// One access of kBytes = 1, 2, 4, 8 or 16; `global` is aligned to that.
template <Cache kCache, int kBytes>
__device__ __forceinline__ void ld_global(void* registers, const void* global WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::load_global(registers, global, kBytes, kCache == Cache::kReadOnly);
#else
  using Word = typename detail::WordOf<kBytes>::Type;
  const Word* from = static_cast<const Word*>(global);
  Word* to = static_cast<Word*>(registers);
  if constexpr (kCache == Cache::kDefault) {
    // Not an assignment, which may become several narrower loads, nor __ldca, which is a strong
    // one.
    if constexpr (kBytes == 16) {
      asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to->x), "=r"(to->y), "=r"(to->z), "=r"(to->w)
                   : "l"(from));
    } else if constexpr (kBytes == 8) {
      asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(to->x), "=r"(to->y) : "l"(from));
    } else {
      *to = *from;
    }
  } else if constexpr (kCache == Cache::kStreaming) {
    *to = __ldcs(from);
  } else if constexpr (kCache == Cache::kPassing) {
    static_assert(kBytes >= 4, "what passes the L1 comes in vectors");
    if constexpr (kBytes == 16) {
      asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(to->x), "=r"(to->y), "=r"(to->z), "=r"(to->w)
                   : "l"(from));
    } else if constexpr (kBytes == 8) {
      asm volatile("ld.global.L1::no_allocate.v2.b32 {%0, %1}, [%2];"
                   : "=r"(to->x), "=r"(to->y)
                   : "l"(from));
    } else {
      asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];" : "=r"(*to) : "l"(from));
    }
  } else {
    *to = __ldg(from);
  }
#endif
}

}  // namespace ptx

}  // namespace ws
