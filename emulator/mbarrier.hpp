// The model behind ptx/mbarrier.hpp. `barrier` is the address of the 64-bit object in the shared
// memory of any block of the cluster. Rules: PTX ISA, "mbarrier".
#pragma once

#include <functional>

#include "emulator/emulator.hpp"
#include "emulator/global_memory.hpp"

namespace ws::emulator {

void mbarrier_init(void* barrier, uint32_t count);
void mbarrier_inval(void* barrier);
// `passes_writes`: who waits sees what this thread has written; else only that it has read.
void mbarrier_arrive(void* barrier, bool passes_writes = true);
void mbarrier_expect_tx(void* barrier, uint32_t bytes);
bool mbarrier_try_wait(void* barrier, uint32_t parity);
void mbarrier_wait(void* barrier, uint32_t parity);

// A copy is on its way that will count `bytes` on the mbarrier. `land` is called inside the wait
// that first needs it, never earlier, so that nobody sees the data without that wait; it lands in
// the epoch of that stream of the mbarrier's block. `by_thread`: the thread's own store is on its
// way, and who waits for it comes after what the thread did before.
void mbarrier_add_transfer(void* barrier, uint32_t bytes, std::function<void(uint32_t stream)> land,
                           const char* operation, bool by_thread = false);

// In whose epoch a copy lands, and reads, that counts on the mbarrier of the thread's own block.
Stream mbarrier_stream(void* barrier, const char* operation);

void fence_mbarrier_init();
void fence_proxy_async();

}  // namespace ws::emulator
