// A pause of a thread that waits for what is far off, so that its looks are not in others' way
// (PTX ISA, "nanosleep").
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

// For up to twice as long; in the emulator, where time is none, for no time.
__device__ __forceinline__ void nanosleep([[maybe_unused]] uint32_t nanoseconds) {
#ifndef WS_EMULATED
  __nanosleep(nanoseconds);
#endif
}

}  // namespace ws::ptx
