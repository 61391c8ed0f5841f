// Idea: 32 copies of the counters, one for each lane of a warp, each in a bank of its own.
// From shared: counter [bin][lane] instead of [bin]: lanes of a warp never meet, in an address or a
// bank, so that equal values cost what different ones do.
// Traffic: as before; the copies are added up once a block.
// Limits: dense i32 from a multiple of 16 bytes on; bins that fit 32 times into 96 KB. A load is
// asked for when the one before it has been counted.
#pragma once

#include "kernels/histogram/plain.hpp"

namespace ws::histogram {

struct CopyPerLaneKernel {
  static constexpr int kThreads = 512;
  static constexpr int64_t kPerBlock = int64_t{kThreads} * 4;
  static constexpr int64_t kMostBlocks = 512;
  using Arguments = PlainArguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const SharedSpan<uint32_t> counts = dynamic_shared<uint32_t>(shared, a.bins * kWarpSize);
    for (uint32_t i = thread_index(); i < a.bins * kWarpSize; i += kThreads) counts[i] = 0;
    ptx::barrier_sync();

    const int lane = lane_index();
    const int64_t step = grid_blocks() * kPerBlock;
    for (int64_t i = (block_index() * kThreads + thread_index()) * 4; i < a.count; i += step) {
      if (i + 4 <= a.count) {
        const Vec<int32_t, 4> bins = thread::load<4>(a.x + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (a.check(bins[e], i + e)) {
            ptx::red_shared_increment(counts.pointer(bins[e] * kWarpSize + lane));
          }
        }
      } else {
        for (int64_t e = i; e < a.count; ++e) {
          const int32_t bin = thread::load(a.x + e);
          if (a.check(bin, e)) {
            ptx::red_shared_increment(counts.pointer(bin * kWarpSize + lane));
          }
        }
      }
    }
    ptx::barrier_sync();
    for (uint32_t bin = thread_index(); bin < a.bins; bin += kThreads) {
      uint32_t sum = 0;
      for (int c = 0; c < kWarpSize; ++c) {  // each lane begins in its own bank
        sum += counts[bin * kWarpSize + (c + lane) % kWarpSize];
      }
      ptx::red_global_add(a.counts + bin, sum);
    }
  }
};

struct CopyPerLane {
  static bool supports(const CountBins::Call& call, Why& why) {
    return is_plain_vectors(call, why) &&
           why.unless(call.bins <= 768, "keeps up to 768 bins 32 times, not ", call.bins);
  }
  static void run(const CountBins::Call& call, const Context& context) {
    run_plain<CopyPerLaneKernel>(call, "count_bins/copy_per_lane", context,
                                 static_cast<size_t>(call.bins) * kWarpSize * sizeof(uint32_t));
  }
};

inline constexpr Rung kCopyPerLane = rung_of<CopyPerLane, DTypes{DType::kI32}, CountBins>(
    {.name = "copy_per_lane",
     .from = "shared",
     .idea = "a copy of the counters for each lane, in its own bank: equal values do not meet"});

}  // namespace ws::histogram
