// Special registers (PTX ISA, "Special Registers"). The emulator knows a thread's place by itself,
// so what tells it has a device body only.
#pragma once

#include <cstdint>

namespace ws::ptx {

#ifdef WS_EMULATED
// %clock64: in the emulator every look at the clock takes a microsecond.
inline int64_t clock64() {
  static thread_local int64_t clocks = 0;
  return clocks += 1000;
}
#elif defined(__CUDACC__)
// %clock64: clocks of the multiprocessor.
__device__ __forceinline__ int64_t clock64() {
  int64_t clocks = 0;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clocks));
  return clocks;
}

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
#endif

}  // namespace ws::ptx
