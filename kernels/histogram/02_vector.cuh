// Idea: four elements a load.
// From global_atomics: an access is 16 bytes; the additions are as many as before.
// Traffic: every element once, a warp asks for 512 bytes at a time; an atomic for each element.
// Limits: dense i32 from a multiple of 16 bytes on. The atomics are the limit, not the loads.
#pragma once

#include "kernels/histogram/plain.hpp"

namespace ws::histogram {

struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int64_t kPerBlock = int64_t{kThreads} * 4;
  static constexpr int64_t kMostBlocks = 0x7FFFFFFF;
  using Arguments = PlainArguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = (block_index() * kThreads + thread_index()) * 4;
    if (i + 4 <= a.count) {
      const Vec<int32_t, 4> bins = thread::load<4>(a.x + i);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (a.check(bins[e], i + e)) ptx::red_global_add(a.counts + bins[e], 1);
      }
    } else {
      for (int64_t e = i; e < a.count; ++e) {
        const int32_t bin = thread::load(a.x + e);
        if (a.check(bin, e)) ptx::red_global_add(a.counts + bin, 1);
      }
    }
  }
};

struct Vector {
  static bool supports(const CountBins::Call& call, Why& why) {
    return is_plain_vectors(call, why);
  }
  static void run(const CountBins::Call& call, const Context& context) {
    run_plain<VectorKernel>(call, "count_bins/vector", context);
  }
};

inline constexpr Seed kVectorSeeds[] = {{.name = "histogram_i32x4"}};
inline constexpr Rung kVector = rung_of<Vector, DTypes{DType::kI32}, CountBins>(
    {.name = "vector",
     .from = "global_atomics",
     .idea = "four elements a load, the atomics as before",
     .seeds = kVectorSeeds});

}  // namespace ws::histogram
