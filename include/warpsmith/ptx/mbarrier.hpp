// mbarrier: a barrier object in shared memory that counts arrivals and bytes (PTX ISA, "Parallel
// Synchronization and Communication Instructions: mbarrier"). A phase completes when all expected
// arrivals have come and all expected bytes have landed; the next begins at once with the same
// count.
#pragma once

#include "warpsmith/ptx/address.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/fence.hpp"

#ifdef WS_EMULATED
#include "emulator/mbarrier.hpp"
#endif

namespace ws::ptx {

struct alignas(8) Mbarrier {
  uint64_t opaque;
};

// mbarrier.init: phase 0 begins, expecting `count` arrivals (1 to 2^20 - 1). Others may use it
// after a barrier; other blocks and the async proxy after fence_mbarrier_init() and a barrier.
__device__ __forceinline__ void mbarrier_init(Mbarrier& barrier, uint32_t count WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_init(&barrier, count);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count)
               : "memory");
#endif
}

// mbarrier.inval: the object's memory may be used for something else.
__device__ __forceinline__ void mbarrier_inval(Mbarrier& barrier WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_inval(&barrier);
#else
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
#endif
}

// mbarrier.arrive: one arrival.
__device__ __forceinline__ void mbarrier_arrive(Mbarrier& barrier WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_arrive(&barrier);
#else
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
#endif
}

// mbarrier.arrive.expect_tx: the phase waits for `bytes` more bytes of copies; then one arrival.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier& barrier,
                                                          uint32_t bytes WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_expect_tx(&barrier, bytes);
  emulator::mbarrier_arrive(&barrier);
#else
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
#endif
}

// mbarrier.expect_tx: the phase waits for `bytes` more bytes of copies.
__device__ __forceinline__ void mbarrier_expect_tx(Mbarrier& barrier, uint32_t bytes WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_expect_tx(&barrier, bytes);
#else
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
#endif
}

// mbarrier.arrive.shared::cluster: one arrival at an mbarrier anywhere in the cluster, by the
// address that map_shared_rank gives. The scope is that of the threads which then see what this one
// wrote: kCluster costs a fence of the GPU's memory, so where only the arrival matters, kCta is the
// one.
template <Scope kScope = Scope::kCluster>
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t address WS_AND_PLACE) {
  static_assert(kScope == Scope::kCta || kScope == Scope::kCluster);
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_arrive(emulator::shared_pointer(address), kScope == Scope::kCluster);
#else
  if constexpr (kScope == Scope::kCta) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(address) : "memory");
  } else {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(address)
                 : "memory");
  }
#endif
}

// The same, at the mbarrier of block `rank` of the cluster that stands where `barrier` stands here.
template <Scope kScope = Scope::kCluster>
__device__ __forceinline__ void mbarrier_arrive_cluster(Mbarrier& barrier, int rank WS_AND_PLACE) {
  mbarrier_arrive_cluster<kScope>(map_shared_rank(&barrier, rank) WS_PASS_AND_PLACE);
}

// mbarrier.try_wait.parity: whether the phase of this parity (0 for the first, then 1, 0, ...) has
// completed; waits a while before it says no. Asked for parity 1 a fresh mbarrier says yes: the
// phase "before the first" is complete. The scope is that of the memory which the waiting thread
// then sees: kCluster where other blocks wrote.
template <Scope kScope = Scope::kCta>
__device__ __forceinline__ bool mbarrier_try_wait_parity(Mbarrier& barrier,
                                                         uint32_t parity WS_AND_PLACE) {
  static_assert(kScope == Scope::kCta || kScope == Scope::kCluster);
#ifdef WS_EMULATED
  emulator::at(place);
  return emulator::mbarrier_try_wait(&barrier, parity);
#else
  uint32_t complete = 0;
  if constexpr (kScope == Scope::kCta) {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  } else {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(shared_address(&barrier)), "r"(parity)
        : "memory");
  }
  return complete != 0;
#endif
}

// Waits until the phase of this parity has completed.
template <Scope kScope = Scope::kCta>
__device__ __forceinline__ void mbarrier_wait_parity(Mbarrier& barrier,
                                                     uint32_t parity WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::mbarrier_wait(&barrier, parity);
#else
  while (!mbarrier_try_wait_parity<kScope>(barrier, parity)) {
  }
#endif
}

}  // namespace ws::ptx
