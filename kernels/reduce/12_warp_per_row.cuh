// Idea: a warp a row: lanes take every 32nd element, then hand their sums round by shuffles.
// From shuffle: many outputs instead of one; a warp needs neither shared memory nor a barrier.
// Traffic: every element once, one element a lane and load.
// Limits: elements of a row side by side, up to 32768; few rows leave the device idle.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/reducers.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::reduce {

template <class Reducer>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Element = typename Reducer::Element;
  using Accumulator = typename Reducer::Accumulator;
  struct Arguments {
    Reducer reducer;
    const Element* x;
    int64_t pitch;
    int64_t rows;
    int64_t columns;
    void* y;
    int64_t y_stride;
    DType y_dtype;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    Accumulator total = Reducer::none();
    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      total = a.reducer.add(total, thread::load(a.x + row * a.pitch + i), i);
    }
    total = warp::all_reduce(total, Reducer::merge);
    if (lane_index() == 0) {
      store_as(a.y_dtype, a.y, row * a.y_stride, a.reducer.finish(total));
    }
  }
};

// Longer rows would be long chains of additions, slow and far off.
inline constexpr int64_t kMostOfAWarp = 1 << 15;
inline constexpr int64_t kMostOfABlock = 1 << 18;

template <int64_t kMostColumns>
struct PerRow {
  static bool supports(const Reduction& call, Why& why) {
    return why.unless(call.has_rows(), "takes rows whose elements lie side by side") &&
           why.unless(call.count <= kMostColumns, "adds up to ", kMostColumns,
                      " elements a row, not ", call.count) &&
           why.unless(call.outputs < int64_t{1} << 31, "takes fewer than 2^31 rows, not ",
                      call.outputs);
  }
};

struct WarpPerRow : PerRow<kMostOfAWarp> {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_reducer<Elements::kAsTheyLie>(call, [&]<class Reducer>(const Reducer& reducer) {
      using Kernel = WarpPerRowKernel<Reducer>;
      launch<Kernel>(
          {.blocks = divide_up(call.outputs, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream,
          {reducer, call.template input<typename Reducer::Element>(0), call.kept[0].strides[0],
           call.outputs, call.count, call.output, call.kept[0].strides[1], call.output_dtype});
    });
  }
};

inline constexpr Seed kWarpPerRowSeeds[] = {
    {.name = "warp_reduce_sum", .operation = "sum"},
    {.name = "warp_reduce_max", .operation = "amax"},
};
inline constexpr Rung kWarpPerRow =
    fast_rung_of<WarpPerRow, Sum, Amax>({.name = "warp_per_row",
                                         .from = "shuffle",
                                         .idea = "a warp a row: lanes add, then shuffle",
                                         .seeds = kWarpPerRowSeeds});

}  // namespace ws::reduce
