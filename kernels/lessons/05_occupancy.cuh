// Idea: bytes in flight = rate x latency (Little's law). A load takes 600 ns and more; to keep the
//   bus full an SM of an H200 must have some 10 KB on their way at any time.
// From one_block to two_blocks to all_warps: 8, 16 and 64 warps, with one load of 128 bytes each.
// From one_block to loads_in_flight: 8 warps again, but eight loads each before the first is used.
// Traffic: every element once, all of them coalesced.
// Limits: how many blocks an SM holds is told by shared memory that nobody uses.
#pragma once

#include "kernels/lessons/launch_each.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::lessons {

// Copies a stretch of elements, kLoads of a thread at once.
template <int kLoads>
struct StretchKernel {
  static constexpr int kThreads = 256;
  static constexpr int kPerBlock = kThreads * 64;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t first = block_index() * kPerBlock;
    const int64_t last = first + kPerBlock < a.count ? first + kPerBlock : a.count;
    int64_t i = first + thread_index();
#pragma unroll 1
    for (; i + (kLoads - 1) * kThreads < last; i += kLoads * kThreads) {
      float values[kLoads];
#pragma unroll
      for (int n = 0; n < kLoads; ++n) values[n] = thread::load(a.x + i + n * kThreads);
#pragma unroll
      for (int n = 0; n < kLoads; ++n) thread::store(a.y + i + n * kThreads, values[n]);
    }
#pragma unroll 1
    for (; i < last; i += kThreads) thread::store(a.y + i, thread::load(a.x + i));
  }
};

// Shared memory of a block of which an SM holds so many and no more; 0 blocks: as many as it can.
inline size_t shared_bytes_for(int blocks) {
  if (blocks == 0) return 0;
  constexpr size_t kUnit = Multiprocessor::kSharedUnit;
  constexpr size_t kReserved = Multiprocessor::kSharedReserved;
  const size_t all = static_cast<size_t>(device_facts().shared_bytes) + kReserved;
  return (all / static_cast<size_t>(blocks) - kReserved) / kUnit * kUnit;
}

template <int kBlocks, int kLoads>
struct Resident {
  static void run(const Call& call, const Context& context) {
    using Kernel = StretchKernel<kLoads>;
    launch<Kernel>({.blocks = divide_up(call.count, Kernel::kPerBlock),
                    .threads = Kernel::kThreads,
                    .dynamic_shared = shared_bytes_for(kBlocks)},
                   context.stream, call);
  }
};

inline constexpr Rung kOneBlock = rung_of<Resident<1, 1>, Occupancy>({
    .name = "one_block",
    .idea = "a block an SM: 8 warps, 1 KB in flight",
    .file = "05_occupancy.cuh",
});
inline constexpr Rung kTwoBlocks = rung_of<Resident<2, 1>, Occupancy>({
    .name = "two_blocks",
    .from = "one_block",
    .idea = "two blocks an SM: 16 warps, 2 KB in flight",
    .file = "05_occupancy.cuh",
});
inline constexpr Rung kAllWarps = rung_of<Resident<0, 1>, Occupancy>({
    .name = "all_warps",
    .from = "two_blocks",
    .idea = "eight blocks an SM: 64 warps, 8 KB in flight",
    .file = "05_occupancy.cuh",
});
inline constexpr Rung kLoadsInFlight = rung_of<Resident<1, 8>, Occupancy>({
    .name = "loads_in_flight",
    .from = "one_block",
    .idea = "8 warps again, eight loads before the first store: 8 KB in flight",
    .file = "05_occupancy.cuh",
});

}  // namespace ws::lessons
