// Fences (PTX ISA, "membar / fence").
#pragma once

#include "warpsmith/device.hpp"

#ifdef WS_EMULATED
#include "emulator/mbarrier.hpp"
#endif

namespace ws::ptx {

enum class Scope { kCta, kCluster, kGpu, kSystem };

// fence.acq_rel: orders this thread's memory accesses before it against those after it, as seen by
// the threads of the scope. The emulator's memory is sequentially consistent: there it does
// nothing.
template <Scope kScope>
__device__ __forceinline__ void fence_acq_rel() {
#ifdef WS_EMULATED
  emulator::self();
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
__device__ __forceinline__ void fence_proxy_async() {
#ifdef WS_EMULATED
  emulator::fence_proxy_async();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// fence.mbarrier_init.release.cluster: this thread's mbarrier.init before it are seen by the
// cluster and by the async proxy.
__device__ __forceinline__ void fence_mbarrier_init() {
#ifdef WS_EMULATED
  emulator::fence_mbarrier_init();
#else
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

}  // namespace ws::ptx
