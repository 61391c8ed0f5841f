// Idea: a block takes a few rows, its threads share out K; where there are fewer rows than blocks
//   that the device holds, several blocks do, and the last of them adds up what all have left.
// From several_rows: long rows, and as few as one, occupy every SM.
// Traffic: A once; x once for up to four rows; a partial a block and row. One launch, and the same
//   bits whichever block comes last.
// Limits: x and the rows of A start at multiples of 16 bytes.
#pragma once

#include "catalogue/parts.hpp"
#include "kernels/gemv/rows.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::gemv {

// Threads of a block, its rows at most, loads of a thread in flight (its rows times vectors of
// each), blocks that an SM holds.
template <int kThreads_, int kMostRows_, int kLoads_, int kBlocksOfSm_>
struct SplitRowsPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kMostRows = kMostRows_;
  static constexpr int kLoads = kLoads_;
  static constexpr int kBlocksOfSm = kBlocksOfSm_;
};

template <class T, class Policy, int kRows_>
struct SplitRowsKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = Policy::kBlocksOfSm;
  static constexpr int kRows = kRows_;
  static constexpr int kVectors = Policy::kLoads / (kRows > 2 ? kRows : 2);  // x counts as a row
  static constexpr int kWidth = row::kWidest<T>;
  using Element = T;
  using Accumulator = Sums<kRows>;
  struct Arguments : RowArguments<T> {
    int share;  // vectors of a part
    Parts<Accumulator> parts;
  };
  struct SharedStorage {
    typename block::AllReduce<Accumulator, kThreads>::Storage totals;
    SharedArray<uint32_t, 1> order;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    block::AllReduce<Accumulator, kThreads> all_reduce(shared.totals);
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t group = block / static_cast<uint32_t>(g.parts.parts);
    const uint32_t part = block - group * static_cast<uint32_t>(g.parts.parts);
    const int64_t first_row = int64_t{group} * kRows;
    const T* rows[kRows];
    find_rows(rows, g, first_row);

    const int vectors = g.k / kWidth;
    const int first = static_cast<int>(part) * g.share;
    const int last = vectors - first < g.share ? vectors : first + g.share;
    Accumulator sums = multiply_rows<kRows, kVectors, Cache::kDefault>(rows, g.x, first, last,
                                                                       thread_index(), kThreads);
    if (part == 0) multiply_tails(sums, rows, g.x, g.k, thread_index());
    sums = all_reduce(sums, AddSums{});
    if (g.parts.parts > 1) {
      const int64_t base = int64_t{group} * g.parts.parts;
      if (thread_index() == 0) g.parts.leave(base + part, sums);
      if (!g.parts.came_last(group, shared.order)) return;
      sums = {};
      for (int p = thread_index(); p < g.parts.parts; p += kThreads) {
        sums = AddSums{}(sums, g.parts.take(base + p));
      }
      sums = all_reduce(sums, AddSums{});
    }
    store_rows(g, first_row, thread_index(), sums);
  }

  static PartsPlan plan(const Call& call, int& share) {
    constexpr int64_t kTile = int64_t{kThreads} * kVectors;
    const int64_t vectors = call.k / kWidth;
    const int64_t tiles = divide_up(vectors, kTile);
    const int64_t blocks = int64_t{Policy::kBlocksOfSm} * device_facts().multiprocessors;
    const int64_t groups = divide_up(call.m, int64_t{kRows});
    // As many vectors for each: tiles as they come would leave the last blocks half of the work.
    const int64_t wanted = std::clamp<int64_t>(blocks / groups, 1, std::max<int64_t>(tiles, 1));
    share = static_cast<int>(round_up(divide_up(vectors, wanted), int64_t{kWarpSize}));
    const int64_t parts = wanted == 1 ? 1 : divide_up(vectors, int64_t{share});
    return {
        .groups = groups, .parts = static_cast<int>(parts), .partial_bytes = sizeof(Accumulator)};
  }
};

template <class Policy>
struct SplitRows {
  static bool supports(const Call& call, Why& why) {
    return rows_supported(call, why) &&
           why.unless(call.m < int64_t{1} << 31, "takes fewer than 2^31 rows, not ", call.m);
  }
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_kernel(call, [&]<class Kernel>() {
      int share = 0;
      workspace = Kernel::plan(call, share).workspace();
    });
    return workspace;
  }
  static void run(const Call& call, const Context& context) {
    with_kernel(call, [&]<class Kernel>() {
      typename Kernel::Arguments arguments{};
      static_cast<RowArguments<typename Kernel::Element>&>(arguments) =
          RowArguments<typename Kernel::Element>(call);
      const PartsPlan plan = Kernel::plan(call, arguments.share);
      arguments.parts = {plan, context.workspace};
      launch<Kernel>({.blocks = plan.groups * plan.parts, .threads = Kernel::kThreads},
                     context.stream, arguments);
    });
  }

 private:
  // As many rows a block as there are, up to the policy's.
  template <class F>
  static void with_kernel(const Call& call, const F& f) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (call.m == 1) {
        f.template operator()<SplitRowsKernel<T, Policy, 1>>();
      } else if (call.m < Policy::kMostRows) {
        f.template operator()<SplitRowsKernel<T, Policy, 2>>();
      } else {
        f.template operator()<SplitRowsKernel<T, Policy, Policy::kMostRows>>();
      }
    });
  }
};

// Two blocks an SM, whose threads ask for 64 KiB each. H200 2026-11-22, 64 x 2^20, f32 / f16: 99 /
// 92 % of copy (three blocks of 32 KiB: 96 / 87), 1 x 2^20 74 / 66 %.
using SplitRowsChosen = SplitRowsPolicy<256, 4, 16, 2>;

inline constexpr Rung kSplitRows = rung_of<SplitRows<SplitRowsChosen>, Gemv>({
    .name = "split_rows",
    .from = "several_rows",
    .idea = "K shared out among a block's threads, and among blocks; the last one merges",
});

}  // namespace ws::gemv
