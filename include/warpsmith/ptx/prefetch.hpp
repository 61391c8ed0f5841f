// Prefetches (PTX ISA, "prefetch", "cp.async.bulk.prefetch").
#pragma once

#include "warpsmith/device.hpp"

#ifdef WS_EMULATED
#include "emulator/global_memory.hpp"
#endif

namespace ws::ptx {

// cp.async.bulk.prefetch.L2: one thread asks L2 for `bytes` bytes, of which nothing is told. The
// pointer and `bytes` are multiples of 16.
__device__ __forceinline__ void bulk_prefetch(const void* global, uint32_t bytes WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  constexpr const char* kOperation = "cp.async.bulk.prefetch.L2.global";
  if (bytes % 16 != 0) {
    emulator::fail(emulator::Fault::kMisaligned,
                   concatenate(kOperation, " of ", bytes, " bytes, not a multiple of 16"));
  }
  emulator::check_global(global, bytes, 16, false, kOperation);
#else
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(global)),
               "r"(bytes)
               : "memory");
#endif
}

// prefetch.L2: asks L2 for the line of `global`, of which nothing is told.
__device__ __forceinline__ void prefetch_l2(const void* global WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::check_global(global, 1, 1, false, "prefetch.global.L2");
#else
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(global)));
#endif
}

}  // namespace ws::ptx
