// Whether this GPU has the shared memory that a kernel's block wants.
#pragma once

#include "catalogue/catalogue.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::attention {

template <class Kernel>
bool has_shared_memory() {
  return sizeof(typename Kernel::SharedStorage) <= static_cast<size_t>(device_facts().shared_bytes);
}
template <class Kernel>
bool has_shared_memory(Why& why) {
  return why.unless(has_shared_memory<Kernel>(), "needs ", sizeof(typename Kernel::SharedStorage),
                    " bytes of shared memory");
}

}  // namespace ws::attention
