// Barriers of a block and of a warp (PTX ISA, "barrier{.cta}" and "bar.warp.sync").
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

// __syncthreads: all threads of the block meet, and see each other's memory.
__device__ __forceinline__ void barrier_sync(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_block();
#else
  __syncthreads();
#endif
}

// barrier.cta.sync.aligned: waits until `threads` threads (a multiple of 32, whole warps) have
// arrived at barrier `id` of 0 to 15, this warp among them. Barrier 0 is also barrier_sync()'s.
__device__ __forceinline__ void barrier_sync(int id, int threads WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_sync(id, threads);
#else
  asm volatile("barrier.sync.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// barrier.cta.arrive.aligned: arrives at barrier `id` without waiting; `threads` counts those who
// wait as well.
__device__ __forceinline__ void barrier_arrive(int id, int threads WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_arrive(id, threads);
#else
  asm volatile("barrier.arrive.aligned %0, %1;" ::"r"(id), "r"(threads) : "memory");
#endif
}

// bar.warp.sync: the lanes of `mask` meet, and see each other's memory.
__device__ __forceinline__ void syncwarp(uint32_t mask = kFullMask WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::sync_warp(mask);
#else
  __syncwarp(mask);
#endif
}

}  // namespace ws::ptx
