// The model behind ptx/mbarrier.hpp. `barrier` is the address of the 64-bit object in the shared
// memory of any block of the cluster. Rules: PTX ISA, "mbarrier".
#pragma once

#include <functional>

#include "emulator/emulator.hpp"

namespace ws::emulator {

void mbarrier_init(void* barrier, uint32_t count);
void mbarrier_inval(void* barrier);
void mbarrier_arrive(void* barrier);
void mbarrier_expect_tx(void* barrier, uint32_t bytes);
bool mbarrier_try_wait(void* barrier, uint32_t parity);
void mbarrier_wait(void* barrier, uint32_t parity);

// A copy is on its way that will count `bytes` on the mbarrier. `land` is called inside the wait
// that first needs it, never earlier, so that nobody sees the data without that wait.
void mbarrier_add_transfer(void* barrier, uint32_t bytes, std::function<void()> land,
                           const char* operation);

void fence_mbarrier_init();
void fence_proxy_async();

}  // namespace ws::emulator
