// launch<Kernel>() without the library, for who takes a kernel out of it: include this in place of
// warpsmith/launch.hpp, and compile with nvcc and nothing but include/ (docs/cpp.md).
#pragma once

#include "warpsmith/cuda_facts.hpp"
#include "warpsmith/launch.hpp"

namespace ws {

inline const DeviceFacts& device_facts() { return detail::facts_of_current_device(); }

}  // namespace ws
