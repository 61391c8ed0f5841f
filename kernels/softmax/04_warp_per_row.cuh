// Idea: a warp owns a row; lanes take neighbouring elements and merge their totals by shuffles.
// From online: a warp's load is 32 elements side by side, all of what it fetches is used.
// Traffic: two reads, one write; the second read mostly comes from the caches.
// Takes any length and any strides, so it is what strided tensors fall back to.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::softmax {

template <class T, class Op>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = StridedRows<T, Op>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& rows) const {
    const int64_t r = block_index() * kWarps + warp_index();
    if (r >= rows.layout.rows) return;
    const StridedRow<T, Op> row(rows, r);
    auto total = Op::none();
    for (int64_t i = lane_index(); i < row.columns; i += kWarpSize) {
      total = Op::add(total, row[i]);
    }
    const typename Op::Finish finish(warp::all_reduce(total, Op::merge));
    for (int64_t i = lane_index(); i < row.columns; i += kWarpSize) {
      row.set(i, finish(row[i]));
    }
  }
};

struct WarpPerRow {
  static void run(const Problem& problem, const Context& context) {
    dispatch<kEvery>(problem, [&]<class T, class Op>() {
      using Kernel = WarpPerRowKernel<T, Op>;
      const auto rows = strided_rows_of<T, Op>(problem);
      launch<Kernel>(
          {.blocks = divide_up(rows.layout.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, rows);
    });
  }
};

}  // namespace ws::softmax
