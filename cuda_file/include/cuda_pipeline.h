// cp.async by its CUDA names: copies from global to shared memory that a thread does not wait for.
// What has landed is seen by this thread after the wait, by others after a barrier.
#pragma once

#include <cuda_runtime.h>

// NOLINTBEGIN
namespace ws::cuda_file::device {
void pipeline_copy(void* shared, const void* global, size_t bytes, size_t zeros,
                   std::source_location place);
void pipeline_commit(std::source_location place);
void pipeline_wait(size_t pending, std::source_location place);
}  // namespace ws::cuda_file::device

// The last `zeros` bytes become zero, and are not read.
WS_CUDA_INLINE void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes,
                                            size_t zeros = 0, WS_CUDA_PLACE) {
  ::ws::cuda_file::device::pipeline_copy(shared, global, bytes, zeros, place);
}
WS_CUDA_INLINE void __pipeline_commit(WS_CUDA_PLACE) {
  ::ws::cuda_file::device::pipeline_commit(place);
}
// For all but the youngest `pending` groups.
WS_CUDA_INLINE void __pipeline_wait_prior(size_t pending, WS_CUDA_PLACE) {
  ::ws::cuda_file::device::pipeline_wait(pending, place);
}
// NOLINTEND
