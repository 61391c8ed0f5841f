// Kernels of the harness itself.
#pragma once

#include <cstddef>

#include "warpsmith/launch.hpp"

namespace ws::harness {

// Copies bytes (a multiple of 16, both pointers aligned to 16): the ceiling of memory-bound work.
void launch_copy(void* target, const void* source, size_t bytes, Stream stream);

// Reads all bytes, so that nothing else is left in the L2, and nothing dirty.
void launch_flush(const void* buffer, size_t bytes, Stream stream);

// Keeps the stream busy for so many clocks while the host enqueues what is timed.
void launch_delay(int64_t clocks, Stream stream);

}  // namespace ws::harness
