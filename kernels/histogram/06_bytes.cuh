// Idea: sixteen values a load, and no question whether they are bins: a byte has 256 values, all
// are counted, and what is no bin shows in the counts.
// From streamed: nothing is compared; the copies are 32, so that an address is a shift and an
// addition.
// Traffic: every element once; 256 atomics a block in the L2.
// Limits: dense u8. An addition in shared memory for each byte is the limit, not the loads.
#pragma once

#include "kernels/histogram/05_streamed.cuh"

namespace ws::histogram {

template <class Policy>
struct BytesKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = Policy::kBlocks;
  static constexpr int kLoads = Policy::kLoads;
  static constexpr int kWidth = 16;
  static constexpr int64_t kTile = int64_t{kThreads} * kLoads;  // vectors
  static constexpr uint32_t kBytes = 256;
  using Counts = PrivateCounts<kThreads>;
  struct Arguments {
    const uint8_t* x;
    int64_t count;
    int64_t bins;
    Totals totals;
    CountOutput output;
    IndexCheck check;
  };
  // Of an output's bins, those that a byte may be.
  static __host__ __device__ constexpr int64_t counted(int64_t bins) {
    return bins < kBytes ? bins : kBytes;
  }
  struct SharedStorage {
    SharedArray<uint32_t, 1> order;
    SharedArray<uint32_t, 1> wrong;
    SharedArray<uint32_t, Counts::words_of(kBytes, kWarpSize)> counts;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Counts counts(shared.counts.span(), kBytes, kWarpSize);
    if (thread_index() == 0) shared.wrong[0] = 0;
    ptx::barrier_sync();

    const row::Cut<kWidth> cut(a.x, a.count);
    const int64_t step = grid_blocks() * kTile;
    int64_t v = block_index() * kTile + thread_index();
#pragma unroll 1
    for (; v + (kLoads - 1) * kThreads < cut.vectors; v += step) {
      Vec<uint32_t, 4> x[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) x[i] = load(a.x + cut.at(v + i * kThreads));
#pragma unroll
      for (int i = 0; i < kLoads; ++i) add(counts, x[i]);
    }
#pragma unroll 1
    for (int i = 0; i < kLoads && v < cut.vectors; ++i, v += kThreads) {
      add(counts, load(a.x + cut.at(v)));
    }
    if (block_index() == 0 && thread_index() < cut.edges) {
      counts.add(thread::load(a.x + cut.edge(thread_index())));
    }
    if (a.bins < kBytes) look_for_wrong_ones(shared, a, counts, cut);
    // Bins that no byte is.
    const int64_t threads = grid_blocks() * kThreads;
    for (int64_t bin = kBytes + block_index() * kThreads + thread_index(); bin < a.bins;
         bin += threads) {
      a.output.store(bin, uint64_t{0});
    }
    counts.hand_over(a.totals, a.output, counted(a.bins), shared.order);
  }

 private:
  // As words: what a byte is comes with the address of its counter.
  __device__ __forceinline__ static Vec<uint32_t, 4> load(const uint8_t* x) {
    return thread::load<4>(reinterpret_cast<const uint32_t*>(x));
  }
  __device__ __forceinline__ static void add(const Counts& counts, const Vec<uint32_t, 4>& x) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      constexpr uint32_t kBytesOfBin = 4 * kWarpSize;  // 2^7
      const int shift = i % 4 * 8;
      const uint32_t in_place = shift == 0 ? x[i / 4] << 7 : x[i / 4] >> (shift - 7);
      counts.add_at(in_place & 0xFF * kBytesOfBin);
    }
  }

  // Where the block has counted what is no bin, its share is read again, to say where that stands.
  __device__ static void look_for_wrong_ones(SharedStorage& shared, const Arguments& a,
                                             const Counts& counts, const row::Cut<kWidth>& cut) {
    ptx::barrier_sync();
    for (int64_t bin = a.bins + thread_index(); bin < kBytes; bin += kThreads) {
      if (counts.of(static_cast<uint32_t>(bin)) != 0) {
        ptx::red_shared_increment(shared.wrong.pointer());
      }
    }
    ptx::barrier_sync();
    if (shared.wrong[0] == 0) return;
    const int64_t step = grid_blocks() * kTile;
    for (int64_t tile = block_index() * kTile; tile < cut.vectors; tile += step) {
      for (int64_t i = thread_index(); i < kTile * kWidth; i += kThreads) {
        if (tile * kWidth + i >= cut.body) break;
        const int64_t place = cut.head + tile * kWidth + i;
        a.check(thread::load(a.x + place), place);
      }
    }
    if (block_index() == 0 && thread_index() < cut.edges) {
      const int64_t place = cut.edge(thread_index());
      a.check(thread::load(a.x + place), place);
    }
  }
};

template <class Policy>
struct Bytes {
  static bool supports(const CountBins::Call& call, Why& why) {
    return why.unless(call.is_dense(), "takes elements that lie side by side");
  }
  using Kernel = BytesKernel<Policy>;
  static Workspace workspace(const CountBins::Call& call) {
    return Totals::workspace(Kernel::counted(call.bins));
  }
  static void run(const CountBins::Call& call, const Context& context) {
    launch<Kernel>({.blocks = blocks_of<Policy>(call.count, Kernel::kTile * Kernel::kWidth),
                    .threads = Kernel::kThreads},
                   context.stream,
                   {static_cast<const uint8_t*>(call.x), call.count, call.bins,
                    Totals(context.workspace, Kernel::counted(call.bins)), CountOutput(call),
                    IndexCheck("count_bins/bytes", "x", call.bins)});
  }
};

}  // namespace ws::histogram
