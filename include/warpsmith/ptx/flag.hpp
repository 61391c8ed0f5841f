// Words by which threads of different blocks tell each other something (PTX ISA, "ld", "st", with
// .relaxed, .acquire, .release): unlike ordinary accesses they do not race with one another, and
// are looked at anew each time. T: 4 or 8 bytes. The scope is that of the threads that take part.
#pragma once

#include <bit>

#include "warpsmith/ptx/fence.hpp"

#ifdef WS_EMULATED
#include "emulator/global_memory.hpp"
#endif

namespace ws::ptx {

template <class T>
concept FlagValue = std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

namespace detail {

#ifdef WS_EMULATED
constexpr emulator::Reach reach_of(Scope scope) {
  return scope == Scope::kCta ? emulator::Reach::kBlock : emulator::Reach::kDevice;
}

template <FlagValue T>
T load_flag(const T* flag, std::optional<emulator::Reach> acquire) {
  T value;
  emulator::load_strong(&value, flag, sizeof(T), acquire);
  return value;
}
#else
#define WS_LOAD_FLAG(order, scope, type, letter, Bits)              \
  {                                                                 \
    Bits bits = 0;                                                  \
    asm volatile("ld." order "." scope ".global." type " %0, [%1];" \
                 : "=" letter(bits)                                 \
                 : "l"(__cvta_generic_to_global(flag))              \
                 : "memory");                                       \
    return std::bit_cast<T>(bits);                                  \
  }
#define WS_STORE_FLAG(order, scope, type, letter, Bits)            \
  asm volatile("st." order "." scope ".global." type               \
               " [%0], %1;" ::"l"(__cvta_generic_to_global(flag)), \
               letter(std::bit_cast<Bits>(value))                  \
               : "memory")
#define WS_FLAG_OF_SCOPE(what, order)                 \
  if constexpr (sizeof(T) == 4) {                     \
    if constexpr (kScope == Scope::kCta) {            \
      what(order, "cta", "b32", "r", uint32_t);       \
    } else if constexpr (kScope == Scope::kCluster) { \
      what(order, "cluster", "b32", "r", uint32_t);   \
    } else if constexpr (kScope == Scope::kGpu) {     \
      what(order, "gpu", "b32", "r", uint32_t);       \
    } else {                                          \
      what(order, "sys", "b32", "r", uint32_t);       \
    }                                                 \
  } else {                                            \
    if constexpr (kScope == Scope::kCta) {            \
      what(order, "cta", "b64", "l", uint64_t);       \
    } else if constexpr (kScope == Scope::kCluster) { \
      what(order, "cluster", "b64", "l", uint64_t);   \
    } else if constexpr (kScope == Scope::kGpu) {     \
      what(order, "gpu", "b64", "l", uint64_t);       \
    } else {                                          \
      what(order, "sys", "b64", "l", uint64_t);       \
    }                                                 \
  }
#endif

}  // namespace detail

// ld.relaxed: the value now; passes nothing on by itself (a fence_acq_rel() after it does).
template <Scope kScope, FlagValue T>
__device__ __forceinline__ T ld_relaxed(const T* flag WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::load_flag(flag, {});
#else
  WS_FLAG_OF_SCOPE(WS_LOAD_FLAG, "relaxed")
#endif
}

// ld.acquire: and what its writer did before its st.release is seen from here on.
template <Scope kScope, FlagValue T>
__device__ __forceinline__ T ld_acquire(const T* flag WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::load_flag(flag, detail::reach_of(kScope));
#else
  WS_FLAG_OF_SCOPE(WS_LOAD_FLAG, "acquire")
#endif
}

// st.relaxed: passes nothing on by itself (a fence_acq_rel() before it does).
template <Scope kScope, FlagValue T>
__device__ __forceinline__ void st_relaxed(T* flag, std::type_identity_t<T> value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::store_strong(flag, &value, sizeof(T), {});
#else
  WS_FLAG_OF_SCOPE(WS_STORE_FLAG, "relaxed")
#endif
}

// st.release: who sees the value by ld.acquire sees what this thread has done and seen before.
template <Scope kScope, FlagValue T>
__device__ __forceinline__ void st_release(T* flag, std::type_identity_t<T> value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::store_strong(flag, &value, sizeof(T), detail::reach_of(kScope));
#else
  WS_FLAG_OF_SCOPE(WS_STORE_FLAG, "release")
#endif
}

#ifndef WS_EMULATED
#undef WS_LOAD_FLAG
#undef WS_STORE_FLAG
#undef WS_FLAG_OF_SCOPE
#endif

}  // namespace ws::ptx
