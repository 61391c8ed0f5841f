// Loads of an address, for chains that follow them: one instruction each, with nothing between it
// and the next (PTX ISA, "ld"). Kernels that index use thread/memory.hpp and SharedArray.
#pragma once

#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/load.hpp"

namespace ws::ptx {

// The 32-bit address at `address`, both of this block's shared memory: a multiple of 4.
__device__ __forceinline__ uint32_t ld_shared_address(uint32_t address WS_AND_PLACE) {
#ifdef WS_EMULATED
  return ld_shared_cluster<uint32_t>(address, place);  // the block's memory is in the cluster's
#else
  uint32_t loaded = 0;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(loaded) : "r"(address) : "memory");
  return loaded;
#endif
}

// The address at `address`, both of global memory: a multiple of 8.
__device__ __forceinline__ const std::byte* ld_global_address(
    const std::byte* address WS_AND_PLACE) {
  uint64_t loaded = 0;
#ifdef WS_EMULATED
  ld_global<Cache::kDefault, sizeof(loaded)>(&loaded, address, place);
#else
  asm volatile("ld.global.b64 %0, [%1];" : "=l"(loaded) : "l"(address));
#endif
  return reinterpret_cast<const std::byte*>(loaded);
}

}  // namespace ws::ptx
