// Addresses of shared memory as instructions take them: 32 bits, in the shared window.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

// The 32-bit shared::cta address of a generic pointer into the block's shared memory (PTX ISA,
// "cvta"); it is a shared::cluster address of the same byte too. Emulator: a fault if the pointer
// is elsewhere.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
#ifdef WS_EMULATED
  return emulator::shared_address(pointer);
#else
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
#endif
}

}  // namespace ws::ptx
