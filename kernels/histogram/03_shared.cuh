// Idea: each block counts in shared memory, and adds its counts to global memory once.
// From vector: blocks walk on through the elements, so that a global addition stands for thousands.
// Traffic: every element once; an atomic in shared memory for each; bins atomics a block in the L2.
// Limits: dense i32 from a multiple of 16 bytes on; bins that fit into 48 KB. Lanes whose values
// lie in one bank, or are equal, wait for each other.
#pragma once

#include "kernels/histogram/plain.hpp"

namespace ws::histogram {

struct SharedKernel {
  static constexpr int kThreads = 256;
  static constexpr int64_t kPerBlock = int64_t{kThreads} * 4;
  static constexpr int64_t kMostBlocks = 1024;
  using Arguments = PlainArguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SharedSpan<uint32_t> counts = dynamic_shared<uint32_t>(shared, a.bins);
    for (uint32_t bin = thread_index(); bin < a.bins; bin += kThreads) counts[bin] = 0;
    ptx::barrier_sync();

    const int64_t step = grid_blocks() * kPerBlock;
    for (int64_t i = (block_index() * kThreads + thread_index()) * 4; i < a.count; i += step) {
      if (i + 4 <= a.count) {
        const Vec<int32_t, 4> bins = thread::load<4>(a.x + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (a.check(bins[e], i + e)) ptx::red_shared_increment(counts.pointer(bins[e]));
        }
      } else {
        for (int64_t e = i; e < a.count; ++e) {
          const int32_t bin = thread::load(a.x + e);
          if (a.check(bin, e)) ptx::red_shared_increment(counts.pointer(bin));
        }
      }
    }
    ptx::barrier_sync();
    for (uint32_t bin = thread_index(); bin < a.bins; bin += kThreads) {
      ptx::red_global_add(a.counts + bin, uint32_t{counts[bin]});
    }
  }
};

struct Shared {
  static bool supports(const CountBins::Call& call, Why& why) {
    return is_plain_vectors(call, why) &&
           why.unless(call.bins <= 12 * 1024, "keeps up to 12288 bins, not ", call.bins);
  }
  static void run(const CountBins::Call& call, const Context& context) {
    run_plain<SharedKernel>(call, "count_bins/shared", context,
                            static_cast<size_t>(call.bins) * sizeof(uint32_t));
  }
};

inline constexpr Rung kShared = rung_of<Shared, DTypes{DType::kI32}, CountBins>(
    {.name = "shared",
     .from = "vector",
     .idea = "a block counts in shared memory and adds its counts to the others' once"});

}  // namespace ws::histogram
