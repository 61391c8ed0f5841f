// Bulk copies between global and shared memory and within a cluster, and the groups that bulk and
// tensor stores form (PTX ISA, "Data Movement and Conversion Instructions: Bulk copy").
#pragma once

#include "warpsmith/ptx/mbarrier.hpp"

#ifdef WS_EMULATED
#include "emulator/copies.hpp"
#endif

namespace ws::ptx {

// cp.async.bulk.shared::cluster.global: one thread copies `bytes` bytes to shared memory, which
// count on the mbarrier's phase when they have landed. Both pointers and `bytes` are multiples
// of 16.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, uint32_t bytes,
                                          Mbarrier& barrier WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_load(shared, global, bytes, &barrier);
#else
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(&barrier))
      : "memory");
#endif
}

// cp.async.bulk.global.shared::cta: one thread copies `bytes` bytes to global memory. Those who
// wrote the shared memory have executed fence_proxy_async(). Both pointers and `bytes` are
// multiples of 16.
__device__ __forceinline__ void bulk_store(void* global, const void* shared,
                                           uint32_t bytes WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_store(global, shared, bytes);
#else
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(global)),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
#endif
}

// cp.async.bulk.shared::cluster.shared::cta: one thread copies `bytes` bytes from this block's
// shared memory to that of a block of the cluster, where they count on the phase of the mbarrier at
// `mbarrier` when they have landed: `address` and `mbarrier` are in one block, both from
// map_shared_rank. Those who wrote the source have executed fence_proxy_async(); it may be written
// again when whoever waits for the copy says so. Addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void bulk_copy_cluster(uint32_t address, const void* shared,
                                                  uint32_t bytes, uint32_t mbarrier WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_copy_cluster(address, shared, bytes, mbarrier);
#else
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(address),
      "r"(shared_address(shared)), "r"(bytes), "r"(mbarrier)
      : "memory");
#endif
}

// cp.async.bulk.commit_group: this thread's bulk and tensor stores since the last commit form a
// group.
__device__ __forceinline__ void bulk_commit_group(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_commit_group();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// cp.async.bulk.wait_group: waits until all but the kPending youngest groups of this thread are
// done and what they wrote is visible to it.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group(WS_PLACE) {
  static_assert(kPending >= 0);
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_wait_group(kPending);
#else
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// cp.async.bulk.wait_group.read: waits until all but the kPending youngest groups of this thread
// have read their shared memory, which may then be written again. Due before the block exits.
template <int kPending>
__device__ __forceinline__ void bulk_wait_group_read(WS_PLACE) {
  static_assert(kPending >= 0);
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::bulk_wait_group_read(kPending);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace ws::ptx
