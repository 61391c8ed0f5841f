// Idea: a block's threads stand over few columns and many rows: stripes as narrow as it takes to
//   give each SM one, 64 bytes at the least; where even those are too few, blocks share out K and
//   the last one of a stripe adds up what all have left.
// From column_vectors: threads and blocks do not run out with M.
// Traffic: A once, 64 to 512 bytes of a row a warp and load; x once a thread.
// Limits: columns of A come by 16 bytes, M by 4 or 8.
#pragma once

#include "kernels/gemv/columns.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::gemv {

// Threads of a block, rows of a thread in flight, blocks that an SM should have, and the fewest
// threads side by side, of 16 bytes each.
template <int kThreads_, int kLoads_, int kBlocksOfSm_, int kLeastAcross_>
struct SplitColumnsPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kLoads = kLoads_;
  static constexpr int kBlocksOfSm = kBlocksOfSm_;
  static constexpr int kLeastAcross = kLeastAcross_;
};

struct SplitColumnsPlan {
  int across = 1;
  int64_t share = 0;  // rows of a part
  PartsPlan parts;    // groups: stripes

  // K in so many parts, or as many as fill a block's loads.
  template <class Policy>
  static SplitColumnsPlan of(const Call& call, int across, int64_t stripes, int64_t parts) {
    const int64_t tile = int64_t{Policy::kThreads} / across * Policy::kLoads;
    const int64_t tiles = std::max<int64_t>(divide_up(call.k, tile), 1);
    const int64_t share = divide_up(call.k, std::min(parts, tiles));
    return {.across = across,
            .share = share,
            .parts = {.groups = stripes,
                      .parts = call.k == 0 ? 1 : static_cast<int>(divide_up(call.k, share)),
                      .partials = across * static_cast<int64_t>(16 / size_of(call.dtype)),
                      .partial_bytes = sizeof(float)}};
  }
  template <class Policy>
  static SplitColumnsPlan of(const Call& call) {
    const int64_t vectors = call.m / static_cast<int64_t>(16 / size_of(call.dtype));
    const int64_t blocks = int64_t{Policy::kBlocksOfSm} * device_facts().multiprocessors;
    const auto stripes = [&](int across) { return divide_up(vectors, int64_t{across}); };
    int widest = 1;
    while (widest < kWarpSize && widest < vectors) widest *= 2;
    int across = widest;
    while (across > Policy::kLeastAcross && stripes(across / 2) <= blocks) across /= 2;
    // Without parts there is no merge: worth a quarter of the blocks, and narrow stripes.
    if (stripes(across) * 4 >= blocks * 3) return of<Policy>(call, across, stripes(across), 1);
    return of<Policy>(call, widest, stripes(widest), blocks / stripes(widest));
  }
};

template <class T>
struct SplitColumnsArguments {
  ColumnArguments<T> g;
  int across;
  int stripes;
  int64_t share;
  Parts<float> parts;

  struct Place {
    uint32_t stripe, part;
  };
  // Of this block. Stripes first: blocks that run together read whole rows.
  __device__ __forceinline__ Place place() const {
    const auto block = static_cast<uint32_t>(block_index());
    const uint32_t part = block / static_cast<uint32_t>(stripes);
    return {block - part * static_cast<uint32_t>(stripes), part};
  }
};

template <class T, class Policy>
struct SplitColumnsKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kWidth = row::kWidest<T>;
  using Merge = SumDown<kThreads, kWidth>;
  using Arguments = SplitColumnsArguments<T>;
  using SharedStorage = typename Merge::Storage;

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [g, across, stripes, share, parts] = arguments;
    const auto [stripe, part] = arguments.place();
    const int64_t left = int64_t{stripe} * across * kWidth;
    const int64_t column = left + (thread_index() & (across - 1)) * kWidth;

    ColumnSums<kWidth> sums{};
    if (column < g.m) {
      const int64_t first = part * share;
      const int64_t last = first + share < g.k ? first + share : g.k;
      const int row = thread_index() / across;
      sums = multiply_columns<Policy::kLoads>(g, column, first + row, last, kThreads / across);
    }
    Merge::run(shared, sums, across, parts, stripe, part, [&](int i, float sum) {
      if (left + i < g.m) thread::store(g.y + (left + i) * g.y_step, from_float<T>(sum));
    });
  }
};

template <class Policy, template <class, class> class KernelOf = SplitColumnsKernel,
          class Plan = SplitColumnsPlan>
struct SplitColumns {
  static bool supports(const Call& call, Why& why) { return columns_supported(call, why); }
  static Workspace workspace(const Call& call) {
    return Plan::template of<Policy>(call).parts.workspace();
  }
  static void run(const Call& call, const Context& context) {
    const SplitColumnsPlan plan = Plan::template of<Policy>(call);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = KernelOf<T, Policy>;
      launch<Kernel>({.blocks = plan.parts.groups * plan.parts.parts, .threads = Kernel::kThreads},
                     context.stream,
                     {ColumnArguments<T>(call),
                      plan.across,
                      static_cast<int>(plan.parts.groups),
                      plan.share,
                      {plan.parts, context.workspace}});
    });
  }
};

// 512 threads ask for 64 KiB; 4096 columns are 128 stripes of 64 bytes in f16, of 128 bytes in f32,
// and no merge. H200 2026-11-22: of nine candidates none is 3 % faster anywhere.
using SplitColumnsChosen = SplitColumnsPolicy<512, 8, 1, 4>;

inline constexpr Rung kSplitColumns = rung_of<SplitColumns<SplitColumnsChosen>, Gemv>({
    .name = "split_columns",
    .from = "column_vectors",
    .idea = "narrow stripes of columns, K shared out among threads and blocks",
});

}  // namespace ws::gemv
