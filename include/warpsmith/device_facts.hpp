// What the host knows of a device: to shape launches, to tell what it is, to compute its limits.
#pragma once

#include <cstddef>

namespace ws {

struct DeviceFacts {
  int capability = 0;  // major * 10 + minor
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;  // that may be resident
  int shared_bytes = 0;                // the most shared memory that a block can have
  size_t l2_bytes = 0;
  double clock = 0;        // of the multiprocessors at most, Hz; 0: unknown
  double memory_rate = 0;  // bytes per second by clock and width of the memory bus; 0: unknown
};

// Of the current device; asked for once per device and process, so that it may be asked in every
// call. The emulator shows a small Hopper GPU, so that persistent kernels have several tiles for
// each block. Throws ws::Error with CUDA's words where there is no GPU.
const DeviceFacts& device_facts();

}  // namespace ws
