// Special registers (PTX ISA, "Special Registers"). The emulator knows a thread's place by itself,
// so these have a device body only.
#pragma once

#include <cstdint>

#ifndef WS_EMULATED
namespace ws::ptx {

// %cluster_ctarank: rank of the block in its cluster.
__device__ __forceinline__ uint32_t cluster_ctarank() {
  uint32_t rank = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// %cluster_nctarank: number of blocks in the cluster.
__device__ __forceinline__ uint32_t cluster_nctarank() {
  uint32_t size = 0;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

}  // namespace ws::ptx
#endif
