// setmaxnreg: moves registers between the warpgroups of a block (PTX ISA, "setmaxnreg"). sm_90a;
// the kernel needs a register cap at entry, so its kMinBlocks must be set.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

template <int kRegisters>
concept RegisterCount = kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0;

// setmaxnreg.dec.sync.aligned: all threads of the warpgroup give registers back, down to
// kRegisters.
template <int kRegisters>
  requires RegisterCount<kRegisters>
__device__ __forceinline__ void setmaxnreg_dec(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::setmaxnreg(kRegisters, false);
#else
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// setmaxnreg.inc.sync.aligned: all threads of the warpgroup wait until the block has the registers.
template <int kRegisters>
  requires RegisterCount<kRegisters>
__device__ __forceinline__ void setmaxnreg_inc(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::setmaxnreg(kRegisters, true);
#else
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

}  // namespace ws::ptx
