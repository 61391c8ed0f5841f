// Atomic operations on global memory, relaxed, in the scope of the GPU (PTX ISA, "atom", "red").
// `red` returns nothing and is the cheaper one.
#pragma once

#include <atomic>

#include "warpsmith/types.hpp"

#ifdef WS_EMULATED
#include "emulator/global_memory.hpp"
#endif

namespace ws::ptx {

#ifdef WS_EMULATED
namespace detail {

// Replaces *address by update(*address); gives the old value. Blocks run on several host threads.
template <class T, class Update>
T atomic_update(T* address, const char* operation, Update update, bool returns = true) {
  emulator::begin_atomic(address, sizeof(T), operation);
  std::atomic_ref<T> target(*address);
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, update(old), std::memory_order_relaxed)) {
  }
  emulator::end_atomic(address, old != update(old), returns);
  return old;
}

}  // namespace detail
#endif

// *address += value; returns what was there. T: float, int32_t, uint32_t, uint64_t.
template <class T>
__device__ __forceinline__ T atom_global_add(T* address,
                                             std::type_identity_t<T> value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::atomic_update(address, "atom.global.add", [&](T old) {
    if constexpr (std::is_same_v<T, float>) {
      return old + value;
    } else {  // wraps around
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
    }
  });
#else
  const size_t global = __cvta_generic_to_global(address);
  T old = 0;
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;"
                 : "=f"(old)
                 : "l"(global), "f"(value)
                 : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(global), "r"(value)
                 : "memory");
  } else {
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(global), "l"(value)
                 : "memory");
  }
  return old;
#endif
}

// *address += value. T: float, int32_t, uint32_t, uint64_t.
template <class T>
__device__ __forceinline__ void red_global_add(T* address,
                                               std::type_identity_t<T> value WS_AND_PLACE) {
#ifdef WS_EMULATED
  atom_global_add(address, value, place);
#else
  const size_t global = __cvta_generic_to_global(address);
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(global), "f"(value) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(global), "r"(value) : "memory");
  } else {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(global), "l"(value) : "memory");
  }
#endif
}

// *address += value, rounded to nearest even. T: half.
template <class T>
__device__ __forceinline__ void red_global_add_noftz(T* address,
                                                     std::type_identity_t<T> value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, half>);
#ifdef WS_EMULATED
  emulator::at(place);
  detail::atomic_update(&address->bits, "red.global.add.noftz.f16", [&](uint16_t old) {
    half sum;
    sum.bits = old;
    return from_float<half>(to_float(sum) + to_float(value)).bits;
  });
#else
  asm volatile(
      "red.relaxed.gpu.global.add.noftz.f16 [%0], %1;" ::"l"(__cvta_generic_to_global(address)),
      "h"(value.bits)
      : "memory");
#endif
}

// Two packed additions, each rounded to nearest even; T: half, bf16. One 4-byte access, but atomic
// for each element by itself only. bf16 needs sm_90; older GPUs loop over compare-and-swap.
template <class T>
__device__ __forceinline__ void red_global_add_noftz_x2(T* address,
                                                        const Vec<T, 2>& value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16>);
  const auto sum = [&value](uint32_t old) {
    T low, high;
    low.bits = static_cast<uint16_t>(old);
    high.bits = static_cast<uint16_t>(old >> 16);
    low = from_float<T>(to_float(low) + to_float(value[0]));
    high = from_float<T>(to_float(high) + to_float(value[1]));
    return low.bits | (static_cast<uint32_t>(high.bits) << 16);
  };
#ifdef WS_EMULATED
  emulator::at(place);
  detail::atomic_update(reinterpret_cast<uint32_t*>(address), "red.global.add.noftz.x2", sum);
#else
  const size_t global = __cvta_generic_to_global(address);
  const uint32_t bits = value[0].bits | (static_cast<uint32_t>(value[1].bits) << 16);
  if constexpr (std::is_same_v<T, half>) {
    asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(global), "r"(bits)
                 : "memory");
  } else {
#if __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(global), "r"(bits)
                 : "memory");
#else
    unsigned* word = reinterpret_cast<unsigned*>(address);
    unsigned seen = *static_cast<volatile unsigned*>(word);
    for (unsigned expected = ~seen; expected != seen;) {
      expected = seen;
      seen = atomicCAS(word, expected, sum(expected));
    }
#endif
  }
#endif
}

// *address = max(*address, value); returns what was there. T: int32_t, uint32_t.
template <class T>
__device__ __forceinline__ T atom_global_max(T* address,
                                             std::type_identity_t<T> value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t>);
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::atomic_update(address, "atom.global.max",
                               [&](T old) { return old < value ? value : old; });
#else
  const size_t global = __cvta_generic_to_global(address);
  T old = 0;
  if constexpr (std::is_same_v<T, int32_t>) {
    asm volatile("atom.relaxed.gpu.global.max.s32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(global), "r"(value)
                 : "memory");
  } else {
    asm volatile("atom.relaxed.gpu.global.max.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(global), "r"(value)
                 : "memory");
  }
  return old;
#endif
}

// Stores `value`; returns what was there. T: uint32_t, uint64_t.
template <class T>
__device__ __forceinline__ T atom_global_exch(T* address,
                                              std::type_identity_t<T> value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>);
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::atomic_update(address, "atom.global.exch", [&](T) { return value; });
#else
  const size_t global = __cvta_generic_to_global(address);
  T old = 0;
  if constexpr (sizeof(T) == 4) {
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(global), "r"(value)
                 : "memory");
  } else {
    asm volatile("atom.relaxed.gpu.global.exch.b64 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(global), "l"(value)
                 : "memory");
  }
  return old;
#endif
}

// Stores `value` if `expected` is there; returns what was there. T: uint32_t, uint64_t.
template <class T>
__device__ __forceinline__ T atom_global_cas(T* address, std::type_identity_t<T> expected,
                                             std::type_identity_t<T> value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>);
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::atomic_update(address, "atom.global.cas",
                               [&](T seen) { return seen == expected ? value : seen; });
#else
  const size_t global = __cvta_generic_to_global(address);
  T old = 0;
  if constexpr (sizeof(T) == 4) {
    asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(global), "r"(expected), "r"(value)
                 : "memory");
  } else {
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(global), "l"(expected), "l"(value)
                 : "memory");
  }
  return old;
#endif
}

}  // namespace ws::ptx
