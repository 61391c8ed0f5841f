// Idea: four loads of 16 bytes in flight a thread, on as many blocks as the device holds; what is
// wrong among 16 values is asked once; the block that comes last gives the counts out.
// From copy_per_lane: one launch, no memset; as many copies as there is room for, so that bins may
// be more; binners for values, equal parts of a range and edges.
// Traffic: every element once; bins atomics a block in the L2; 8 bytes a bin of workspace.
// Limits: dense elements; bins (and edges) that fit into 73 KB once. Beyond 590 bins copies become
// fewer, and with 16 or fewer lanes meet.
// Long: the policy, tiles and their ends, and three binners of one kernel.
#pragma once

#include "kernels/histogram/binning.hpp"
#include "kernels/histogram/private_counts.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/row/cut.hpp"

namespace ws::histogram {

// Threads of a block, blocks of an SM, loads of a thread before it needs the first.
template <int kThreads_, int kBlocks_, int kLoads_>
struct StreamedPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kBlocks = kBlocks_;
  static constexpr int kLoads = kLoads_;
  // Of an SM's 228 KB; a block takes 1 KB more than it asks for.
  static constexpr int64_t kSharedBytes = (int64_t{227} * 1024 / kBlocks - 1024) / 1024 * 1024;
};

// How many blocks: as many as are resident, fewer where there is less to do, more where a block's
// counters of 32 bits could run over.
template <class Policy>
int64_t blocks_of(int64_t count, int64_t tile) {
  const int64_t places = int64_t{Policy::kBlocks} * device_facts().multiprocessors;
  const int64_t wanted = std::clamp<int64_t>(divide_up(count, tile), 1, places);
  return std::max(wanted, divide_up(count, int64_t{1} << 31));
}

template <class Policy, class Binner>
struct StreamedKernel {
  using T = typename Binner::Element;
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = Policy::kBlocks;
  // A search holds as many bins as elements: fewer of those that are eight a load.
  static constexpr int kLoads =
      Binner::kHasTable && sizeof(T) == 2 ? Policy::kLoads / 2 : Policy::kLoads;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int64_t kTile = int64_t{kThreads} * kLoads;  // vectors
  using Counts = PrivateCounts<kThreads>;
  struct Arguments {
    Binner binner;
    const T* x;
    int64_t count;
    uint32_t bins;
    uint32_t copies;  // a power of two
    Totals totals;
    CountOutput output;
  };
  struct SharedStorage {
    SharedArray<uint32_t, 1> order;
    SharedArray<uint32_t, 1> wrong;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t words = Counts::words_of(a.bins, a.copies);
    const Counts counts(dynamic_shared<uint32_t>(shared, words), a.bins, a.copies);
    if constexpr (Binner::kHasTable) {
      // Behind the counters.
      const int64_t size = ByTable<T>::words_of(a.binner.first_step);
      const SharedSpan<float> all = dynamic_shared<float>(shared, words + size);
      const ByTable<T> table({all.pointer(words), size}, a.binner, kThreads);
      if (has_right_edges(a.binner, shared.wrong, kThreads)) count(a, table, counts);
    } else {
      ptx::barrier_sync();
      count(a, a.binner, counts);
    }
    counts.hand_over(a.totals, a.output, a.bins, shared.order);
  }

 private:
  template <class BinOf>
  __device__ __forceinline__ static void count(const Arguments& a, const BinOf& bin_of,
                                               const Counts& counts) {
    const row::Cut<kWidth> cut(a.x, a.count);
    const int64_t step = grid_blocks() * kTile;
    int64_t v = block_index() * kTile + thread_index();
#pragma unroll 1
    for (; v + (kLoads - 1) * kThreads < cut.vectors; v += step) {
      Vec<T, kWidth> x[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) x[i] = thread::load<kWidth>(a.x + cut.at(v + i * kThreads));
      add(a, bin_of, counts, x, cut.at(v));
    }
#pragma unroll 1
    for (int i = 0; i < kLoads && v < cut.vectors; ++i, v += kThreads) {
      Vec<T, kWidth> x[1] = {thread::load<kWidth>(a.x + cut.at(v))};
      add(a, bin_of, counts, x, cut.at(v));
    }
    if (block_index() > 0) return;
#pragma unroll 1
    for (int i = thread_index(); i < cut.edges; i += kThreads) {
      Vec<T, 1> x[1] = {thread::load<1>(a.x + cut.edge(i))};
      add(a, bin_of, counts, x, cut.edge(i));
    }
  }

  // The first of the elements has the place `at`; vectors are kThreads apart. Without branches
  // where all is right, so that the additions of a tile follow each other.
  template <class BinOf, int kCount, int N>
  __device__ __forceinline__ static void add(const Arguments& a, const BinOf& bin_of,
                                             const Counts& counts, const Vec<T, N> (&x)[kCount],
                                             int64_t at) {
    if constexpr (Binner::kReports) {
      uint32_t worst = 0;
#pragma unroll
      for (int i = 0; i < kCount * N; ++i) {
        const uint32_t bin = bin_of(x[i / N][i % N]);
        worst = bin > worst ? bin : worst;
      }
      if (worst >= a.bins) return add_right_ones<kCount, N>(a, bin_of, counts, at);
#pragma unroll
      for (int i = 0; i < kCount * N; ++i) counts.add(bin_of(x[i / N][i % N]));
    } else if constexpr (Binner::kHasTable) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Vec<uint32_t, N> bins = bin_of(x[i]);
#pragma unroll
        for (int e = 0; e < N; ++e) counts.add(bins[e]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount * N; ++i) {
        counts.add(bin_of(x[i / N][i % N]));  // some to the bin that nobody asks for
      }
    }
  }

  template <int kCount, int N, class BinOf>
  __device__ static void add_right_ones(const Arguments& a, const BinOf& bin_of,
                                        const Counts& counts, int64_t at) {
#pragma unroll 1
    for (int i = 0; i < kCount * N; ++i) {
      const int64_t place = at + i / N * (int64_t{N} * kThreads) + i % N;
      const T value = thread::load(a.x + place);
      if (a.binner.check(static_cast<int64_t>(value), place)) counts.add(bin_of(value));
    }
  }
};

template <class Policy>
struct Streamed {
  static bool in_range(const Histc::Call& call, Why& why) {
    return why.unless(Quotient::is_exact_for(call.max - call.min),
                      "divides by a reciprocal, which takes max - min from 2^-60 to 2^60, not ",
                      call.max - call.min);
  }
  static bool in_range(const Counted& /*call*/, Why& /*why*/) { return true; }

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.is_dense(), "takes elements that lie side by side") &&
           why.unless((call.bins + 1 + table_words(call)) * 4 + 64 <= Policy::kSharedBytes,
                      "keeps ", call.bins, " bins in ", Policy::kSharedBytes, " bytes: too many") &&
           in_range(call, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    return Totals::workspace(call.bins);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_binner(call, Streamed::kRung<Call>, [&]<class Binner>(const Binner& binner) {
      using Kernel = StreamedKernel<Policy, Binner>;
      using Counts = typename Kernel::Counts;
      const int64_t room = Policy::kSharedBytes / 4 - table_words(call) - 16;
      uint32_t copies = kWarpSize;
      while (copies > 1 && Counts::words_of(call.bins, copies) > room) copies /= 2;
      const auto bytes =
          static_cast<size_t>(Counts::words_of(call.bins, copies) + table_words(call)) * 4;
      launch<Kernel>({.blocks = blocks_of<Policy>(call.count, Kernel::kTile * Kernel::kWidth),
                      .threads = Kernel::kThreads,
                      .dynamic_shared = bytes},
                     context.stream,
                     {binner, static_cast<const typename Kernel::T*>(call.x), call.count,
                      static_cast<uint32_t>(call.bins), copies,
                      Totals(context.workspace, call.bins), CountOutput(call)});
    });
  }

 private:
  template <class Call>
  static constexpr const char* kRung =
      std::is_same_v<Call, CountBins::Call> ? "count_bins/streamed"
      : std::is_same_v<Call, Histc::Call>   ? "histc/streamed"
                                            : "count_between/streamed";
};

}  // namespace ws::histogram
