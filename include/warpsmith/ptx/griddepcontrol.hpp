// Programmatic dependent launch: a kernel that begins while the one before it on the stream still
// runs (PTX ISA, "griddepcontrol"; CUDA programming guide, "Programmatic Dependent Launch"). The
// launch says so by Grid::early. The emulator runs one kernel after the other.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

// griddepcontrol.wait: until the kernels before this one are over and their writes are seen here.
// Returns at once in a kernel that was not launched early.
__device__ __forceinline__ void griddepcontrol_wait() {
#ifndef WS_EMULATED
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// griddepcontrol.launch_dependents: the kernel behind this one may begin, once all blocks have said
// so or ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#ifndef WS_EMULATED
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace ws::ptx
