// Prefetches (PTX ISA, "cp.async.bulk.prefetch").
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

}  // namespace ws::ptx
