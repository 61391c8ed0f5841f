// Idea: an element's place in the output is the number of those that come before it: count them.
// From thread_per_row: a thread an element, and no search that waits for the one before.
// Traffic: N reads of the row by its block, from a cache; every output is written by who knows it.
// Limits: contiguous tensors of floats, rows of up to 2048: N^2 comparisons, however small k is.
#pragma once

#include "kernels/topk/01_thread_per_row.cuh"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T>
struct RankKernel {
  static constexpr int kThreads = 256;
  using Arguments = typename ThreadPerRowKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index();
    const T* x = a.x + row * a.columns;
    for (int64_t i = thread_index(); i < a.columns; i += kThreads) {
      const T mine = thread::load(x + i);
      const Placed here{to_float(mine), i};
      int64_t rank = 0;
      for (int64_t other = 0; other < a.columns; ++other) {
        const Placed there{to_float(thread::load(x + other)), other};
        rank += there.precedes(here, a.largest) ? 1 : 0;
      }
      if (rank < a.k) {
        thread::store(a.values + row * a.k + rank, mine);
        thread::store(a.indices + row * a.k + rank, i);
      }
    }
  }
};

struct Rank {
  static constexpr int64_t kMostColumns = 2048;
  static bool supports(const Selection& call, Why& why) {
    return is_dense(call, why) &&
           why.unless(call.rows.columns <= kMostColumns, "compares all of up to ", kMostColumns,
                      " elements, not ", call.rows.columns);
  }
  static void run(const Selection& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = RankKernel<T>;
      const auto& rows = call.rows;
      launch<Kernel>({.blocks = rows.rows, .threads = Kernel::kThreads}, context.stream,
                     {rows.as<const T>(kX), rows.as<T>(kValues), rows.as<int64_t>(kIndices),
                      rows.rows, rows.columns, call.k, call.largest});
    });
  }
};

inline constexpr Rung kRank =
    rung_of<Rank, kFloats, TopK, Sort>({.name = "rank",
                                        .from = "thread_per_row",
                                        .idea = "each element counts those that come before it"});
#endif

}  // namespace ws::topk
