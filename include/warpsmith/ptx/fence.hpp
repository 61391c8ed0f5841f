// Fences (PTX ISA, "membar / fence").
#pragma once

#include "warpsmith/device.hpp"

#ifdef WS_EMULATED
#include "emulator/global_memory.hpp"
#include "emulator/mbarrier.hpp"
#endif

namespace ws::ptx {

enum class Scope { kCta, kCluster, kGpu, kSystem };

// fence.acq_rel: orders this thread's memory accesses before it against those after it, as seen by
// the threads of the scope: with a strong access of a flag behind it here and before it there, they
// see what this one did.
template <Scope kScope>
__device__ __forceinline__ void fence_acq_rel(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::fence_acq_rel(kScope == Scope::kCta ? emulator::Reach::kBlock
                                                : emulator::Reach::kDevice);
#else
  if constexpr (kScope == Scope::kCta) {
    asm volatile("fence.acq_rel.cta;" ::: "memory");
  } else if constexpr (kScope == Scope::kCluster) {
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
  } else if constexpr (kScope == Scope::kGpu) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  } else {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  }
#endif
}

// fence.proxy.async.shared::cta: this thread's ordinary accesses to shared memory before it are
// seen by what the async proxy does after it (bulk and tensor copies, wgmma). Each thread that
// wrote executes it, then a barrier passes the word on.
__device__ __forceinline__ void fence_proxy_async(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::fence_proxy_async();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// fence.proxy.async.global: the same for global memory: what this thread has stored there, copies
// may load.
__device__ __forceinline__ void fence_proxy_async_global(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::fence_proxy_async_global();
#else
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

// fence.mbarrier_init.release.cluster: this thread's mbarrier.init before it are seen by the
// cluster and by the async proxy.
__device__ __forceinline__ void fence_mbarrier_init(WS_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  emulator::fence_mbarrier_init();
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

}  // namespace ws::ptx
