// What the rungs at the bottom share: dense i32 values, counts in the output itself.
#pragma once

#include "kernels/histogram/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::histogram {

inline bool is_plain(const Counted& call, Why& why) {
  return why.unless(call.is_dense(), "takes elements that lie side by side") &&
         why.unless(call.output_stride == 1, "writes counts side by side") &&
         why.unless(call.count < int64_t{1} << 31, "takes fewer than 2^31 elements, not ",
                    call.count);
}
inline bool is_plain_vectors(const Counted& call, Why& why) {
  return is_plain(call, why) && why.unless(reinterpret_cast<uintptr_t>(call.x) % 16 == 0,
                                           "takes tensors that start at a multiple of 16 bytes");
}

// Zeroes the counts, then launches Kernel with a block for each kPerBlock elements, at most
// kMostBlocks.
template <class Kernel>
void run_plain(const CountBins::Call& call, const char* rung, const Context& context,
               size_t dynamic_shared = 0) {
  set_zero(call.output, static_cast<size_t>(call.bins) * sizeof(int64_t), context.stream);
  if (call.count == 0) return;
  const int64_t blocks = std::min(divide_up(call.count, Kernel::kPerBlock), Kernel::kMostBlocks);
  launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads, .dynamic_shared = dynamic_shared},
                 context.stream,
                 {static_cast<const int32_t*>(call.x), static_cast<uint64_t*>(call.output),
                  call.count, static_cast<uint32_t>(call.bins), IndexCheck(rung, "x", call.bins)});
}

struct PlainArguments {
  const int32_t* x;
  uint64_t* counts;  // zero before
  int64_t count;
  uint32_t bins;
  IndexCheck check;
};

}  // namespace ws::histogram
#endif
