// What a grid waits for: a barrier of all its blocks, for cooperative launches (PTX ISA, "atom",
// "ld.acquire"), and the grid before it in the stream, where it may begin early ("griddepcontrol").
#pragma once

#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"

namespace ws::ptx {

#ifndef WS_EMULATED
// atom.add.acq_rel.gpu: adds to a word that other blocks watch; returns what it was.
__device__ __forceinline__ uint32_t atom_add_acq_rel_gpu(uint32_t* word, uint32_t value) {
  uint32_t old = 0;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(__cvta_generic_to_global(word)), "r"(value)
               : "memory");
  return old;
}

// ld.acquire.gpu: reads a word; what its writer did before is seen after.
__device__ __forceinline__ uint32_t ld_acquire_gpu(const uint32_t* word) {
  uint32_t value = 0;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(word))
               : "memory");
  return value;
}
#endif

// All threads of the grid meet, and see each other's memory. `counter` is a word of the workspace,
// zero before its first use ever: a barrier leaves it ready for the next one, of this launch or a
// later one with any number of blocks.
//
// Block 0 adds what the others' ones lack to 2^31, so the word's top bit flips when the last one
// has come; the bits below are zero again. Nobody can flip it back before all have seen it.
__device__ __forceinline__ void grid_sync(uint32_t* counter WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::barrier_grid(counter);
#else
  constexpr uint32_t kTop = 0x80000000u;
  barrier_sync();
  if (thread_index() == 0) {
    const auto others = static_cast<uint32_t>(grid_blocks() - 1);
    const uint32_t old = atom_add_acq_rel_gpu(counter, block_index() == 0 ? kTop - others : 1);
    while (((old ^ ld_acquire_gpu(counter)) & kTop) == 0) {
    }
  }
  barrier_sync();
#endif
}

// Sets the counter back to zero, which grid_sync() leaves at 0 or 2^31: every thread calls it once,
// after the launch's last grid_sync(). The last block to come writes; nobody waits.
__device__ __forceinline__ void grid_leave(uint32_t* counter WS_AND_PLACE) {
  constexpr uint32_t kTop = 0x80000000u;
  if (thread_index() != 0) return;
  const auto others = static_cast<uint32_t>(grid_blocks() - 1);
  // Blocks that still spin in grid_sync() look at the top bit alone.
  if ((atom_global_add(counter, 1 WS_PASS_AND_PLACE) & ~kTop) == others)
    atom_global_exch(counter, 0u WS_PASS_AND_PLACE);
}

// griddepcontrol.wait, of a launch with Grid::overlaps: until the launch before it in the stream
// has ended and its writes are seen. Every thread calls it before it touches global memory.
__device__ __forceinline__ void griddepcontrol_wait(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::griddepcontrol_wait();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900  // older GPUs overlap nothing
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// griddepcontrol.launch_dependents: once every block of this grid has called it or ended, a launch
// with Grid::overlaps behind it begins. It waits for the end of this one all the same.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ws::ptx
