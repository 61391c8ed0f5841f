// cp.async: copies from global to shared memory that the thread does not wait for (PTX ISA, "Data
// Movement and Conversion Instructions: Non-bulk copy").
#pragma once

#include "warpsmith/ptx/address.hpp"

#ifdef WS_EMULATED
#include "emulator/copies.hpp"
#endif

namespace ws::ptx {

// Copies `source_bytes` (0 to kBytes) of global memory and zeros up to kBytes; both pointers are
// multiples of kBytes. 16 bytes pass the L1 by. `global` is not read where source_bytes is 0.
template <int kBytes>
__device__ __forceinline__ void cp_async(void* shared, const void* global,
                                         int source_bytes = kBytes WS_AND_PLACE) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async copies 4, 8 or 16 bytes");
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::cp_async(shared, global, kBytes, source_bytes);
#else
  if constexpr (kBytes == 16) {
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
        "l"(__cvta_generic_to_global(global)), "n"(kBytes), "r"(source_bytes)
        : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(global)), "n"(kBytes), "r"(source_bytes)
                 : "memory");
  }
#endif
}

// cp.async.commit_group: this thread's copies since the last commit form a group (maybe empty).
__device__ __forceinline__ void cp_async_commit_group(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::cp_async_commit_group();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// cp.async.wait_group: waits until at most the kPending youngest groups of this thread are in
// flight. What landed is seen by this thread; others see it after a barrier.
template <int kPending>
__device__ __forceinline__ void cp_async_wait_group(WS_PLACE) {
  static_assert(kPending >= 0);
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::cp_async_wait_group(kPending);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace ws::ptx
