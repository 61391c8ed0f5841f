// Atomic operations on the block's shared memory, relaxed (PTX ISA, "atom", "red"). `red` returns
// nothing and is the cheaper one; of a literal 1 it is an increment, which counts the lanes that
// meet at an address at once.
#pragma once

#include "warpsmith/ptx/address.hpp"

#ifdef WS_EMULATED
#include <atomic>

#include "emulator/profile.hpp"
#endif

namespace ws::ptx {

// *address += value, modulo 2^32; returns what was there.
__device__ __forceinline__ uint32_t atom_shared_add(uint32_t* address,
                                                    uint32_t value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  // Passes over the banks as of a load: lanes at one word count as one, as increments do.
  emulator::profile_shared_load("atom.shared", address, sizeof(uint32_t));
  emulator::begin_atomic_shared(address, sizeof(uint32_t), "atom.shared.add");
  const uint32_t old = std::atomic_ref(*address).fetch_add(value, std::memory_order_relaxed);
  emulator::end_atomic_shared(address, value != 0);
  return old;
#else
  uint32_t old = 0;
  asm volatile("atom.relaxed.cta.shared::cta.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "r"(shared_address(address)), "r"(value)
               : "memory");
  return old;
#endif
}

// *address += value, modulo 2^32.
__device__ __forceinline__ void red_shared_add(uint32_t* address, uint32_t value WS_AND_PLACE) {
#ifdef WS_EMULATED
  atom_shared_add(address, value, place);
#else
  asm volatile("red.relaxed.cta.shared::cta.add.u32 [%0], %1;" ::"r"(shared_address(address)),
               "r"(value)
               : "memory");
#endif
}

// *address += value, rounded to nearest even; addresses in shared memory have no such addition, so
// that it is a loop over compare-and-swap, which lanes that meet at one take turns in.
__device__ __forceinline__ void red_shared_add(float* address, float value WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::profile_shared_load("red.shared", address, sizeof(float));
  emulator::begin_atomic_shared(address, sizeof(float), "red.shared.add.f32");
  std::atomic_ref<float> target(*address);
  float old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, old + value, std::memory_order_relaxed)) {
  }
  emulator::end_atomic_shared(address, old != old + value);
#else
  asm volatile("red.relaxed.cta.shared::cta.add.f32 [%0], %1;" ::"r"(shared_address(address)),
               "f"(value)
               : "memory");
#endif
}

// ++*address, modulo 2^32.
__device__ __forceinline__ void red_shared_increment(uint32_t* address WS_AND_PLACE) {
#ifdef WS_EMULATED
  atom_shared_add(address, 1, place);
#else
  asm volatile("red.relaxed.cta.shared::cta.add.u32 [%0], 1;" ::"r"(shared_address(address))
               : "memory");
#endif
}

}  // namespace ws::ptx
