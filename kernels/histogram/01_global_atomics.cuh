// Idea: a thread an element; each adds 1 to its bin in global memory.
// From nothing: the loop over elements becomes the grid.
// Traffic: every element once, and an atomic operation of the L2 for each.
// Limits: dense i32. Where many elements are equal their additions queue at one address.
#pragma once

#include "kernels/histogram/plain.hpp"

namespace ws::histogram {

struct GlobalAtomicsKernel {
  static constexpr int kThreads = 256;
  static constexpr int64_t kPerBlock = kThreads;
  static constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  using Arguments = PlainArguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const int32_t bin = thread::load(a.x + i);
    if (a.check(bin, i)) ptx::red_global_add(a.counts + bin, 1);
  }
};

struct GlobalAtomics {
  static bool supports(const CountBins::Call& call, Why& why) { return is_plain(call, why); }
  static void run(const CountBins::Call& call, const Context& context) {
    run_plain<GlobalAtomicsKernel>(call, "count_bins/global_atomics", context);
  }
};

inline constexpr Seed kGlobalAtomicsSeeds[] = {{.name = "histogram_i32"}};
inline constexpr Rung kGlobalAtomics = rung_of<GlobalAtomics, DTypes{DType::kI32}, CountBins>(
    {.name = "global_atomics",
     .idea = "a thread an element, an atomic addition in global memory",
     .seeds = kGlobalAtomicsSeeds});

}  // namespace ws::histogram
