// The model behind ptx/wgmma.hpp: products of a warpgroup, in flight until the wait that covers
// them.
//
// At issue the operands' bytes in shared memory are checked and held (overwriting them is a fault
// from then on) and the accumulator registers are filled with NaN. The product is computed when the
// first thread of the warpgroup reaches a wait that covers it; each thread gets its accumulators at
// its own.
#pragma once

#include "emulator/emulator.hpp"

namespace ws::emulator {

// One wgmma.mma_async.m64nNk16, as one thread executes it.
struct WgmmaProduct {
  int n;
  bool bf16;  // else f16
  bool a_mn_major;
  bool b_mn_major;
  const uint32_t* a_registers;  // four, or null: A is where descriptor `a` says
  uint64_t a;
  uint64_t b;
  bool accumulate;
  float* d;  // n / 2
};

void wgmma_check_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes);
void wgmma_fence();
void wgmma_mma_async(const WgmmaProduct& product);
void wgmma_commit_group();
void wgmma_wait_group(int pending);

}  // namespace ws::emulator
