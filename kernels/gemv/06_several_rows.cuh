// Idea: a warp takes several rows at once, so that a vector of x, loaded once, meets all of them.
// From warp_vectors: x costs L1 and L2 a quarter, and loads of several rows are in flight together.
// Traffic: A once; x once for two rows.
// Limits: x and the rows of A start at multiples of 16 bytes; few rows make few warps.
#pragma once

#include "kernels/gemv/rows.hpp"

namespace ws::gemv {

// Threads of a block, rows of a warp, vectors of each row in flight, blocks that an SM should hold.
template <int kThreads_, int kRows_, int kVectors_, int kBlocksOfSm_,
          Cache kCache_ = Cache::kDefault>
struct SeveralRowsPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kRows = kRows_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kMinBlocks = kBlocksOfSm_;
  static constexpr Cache kCache = kCache_;
};

template <class T, class Policy>
struct SeveralRowsKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = Policy::kMinBlocks;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kRows = Policy::kRows;
  using Arguments = RowArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t first = (block_index() * kWarps + warp_index()) * kRows;
    if (first >= g.m) return;
    const T* rows[kRows];
    find_rows(rows, g, first);
    Sums<kRows> sums = multiply_rows<kRows, Policy::kVectors, Policy::kCache>(
        rows, g.x, 0, g.k / row::kWidest<T>, lane_index(), kWarpSize);
    multiply_tails(sums, rows, g.x, g.k, lane_index());
    store_rows(g, first, lane_index(), warp::all_reduce(sums, AddSums{}));
  }
};

template <class Policy>
struct SeveralRows {
  static bool supports(const Call& call, Why& why) { return rows_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = SeveralRowsKernel<T, Policy>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kWarps * Kernel::kRows),
                      .threads = Kernel::kThreads},
                     context.stream, RowArguments<T>(call));
    });
  }
};

// H200 2026-11-22, against cuBLAS, f32 / f16: 4096 x 4096 1.29 / 1.22 (four rows: 1.25 / 1.17),
// 16384 x 16384 1.09 / 1.02 (1.08 / 1.01).
using SeveralRowsChosen = SeveralRowsPolicy<128, 2, 8, 4>;

inline constexpr Rung kSeveralRows = rung_of<SeveralRows<SeveralRowsChosen>, Gemv>({
    .name = "several_rows",
    .from = "warp_vectors",
    .idea = "a warp takes two rows at once: x is loaded once for both",
});

}  // namespace ws::gemv
