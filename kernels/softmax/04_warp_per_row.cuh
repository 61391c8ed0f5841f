// Idea: a warp owns a row; lanes take neighbouring elements and merge their totals by shuffles.
// From online: a warp's load is 32 elements side by side, all of what it fetches is used. The
// recurrence is now a class for each operation (row_operations.hpp), its (m, s) a Total that lanes
// can merge.
// Traffic: two reads, one write; the second read mostly comes from the caches.
// Takes every valid problem: any operation, length, strides and mask. It is the one rung that
// does, and what the others' refusals fall back to.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

template <class T, class Op>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = StridedRows<T, Op>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& all) const {
    const int64_t r = block_index() * kWarps + warp_index();
    if (r >= all.rows.rows) return;
    const StridedRow<T, Op> row(all, r);
    auto total = Op::none();
    for (int64_t i = lane_index(); i < row.columns; i += kWarpSize) {
      total = Op::add(total, row[i]);
    }
    const typename Op::Finish finish(warp::all_reduce(total, typename Op::Merge{}));
    for (int64_t i = lane_index(); i < row.columns; i += kWarpSize) {
      row.set(i, finish(row[i]));
    }
  }
};

struct WarpPerRow {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WarpPerRowKernel<T, typename Call::RowOperation>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, strided_rows_of<T>(call));
    });
  }
};

inline constexpr Rung kWarpPerRow =
    rung_of<WarpPerRow, Softmax, LogSoftmax, ScaleMaskSoftmax, SoftmaxBackward, LogSoftmaxBackward,
            ScaleMaskSoftmaxBackward>(
        {.name = "warp_per_row",
         .from = "online",
         .idea = "a warp a row: coalesced loads, totals merged by shuffles"});

}  // namespace ws::softmax
#endif
