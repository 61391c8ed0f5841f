// cp.async of 16 bytes through the L1 (PTX ISA, "cp.async", .ca), for copies whose sectors other
// copies of the block share.
#pragma once

#include "warpsmith/ptx/cp_async.hpp"

namespace ws::ptx {

// As cp_async<16>, but the L1 keeps the sector: where two copies each want half of it, the second
// does not ask the L2 again.
__device__ __forceinline__ void cp_async_kept(void* shared, const void* global,
                                              int source_bytes = 16 WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::cp_async(shared, global, 16, source_bytes);
#else
  asm volatile(
      "cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(source_bytes)
      : "memory");
#endif
}

}  // namespace ws::ptx
