// Idea: a warp a row: lanes search every 32nd element, shuffles find the best of their finds.
// From thread_per_row: the same k searches, each by 32 lanes side by side.
// Traffic: k reads of the row, of which all but the first may be in a cache.
// Limits: contiguous tensors of floats, k of up to 1024.
#pragma once

#include "kernels/topk/01_thread_per_row.cuh"
#include "warpsmith/warp/reduce.hpp"

namespace ws::topk {

#if WS_DEVICE_CODE
template <class T>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = typename ThreadPerRowKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    Placed last{0, -1};
    for (int64_t j = 0; j < a.k; ++j) {
      Placed best{0, -1};
      for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
        const Placed here{to_float(thread::load(x + i)), i};
        const bool is_left = j == 0 || last.precedes(here, a.largest);
        if (is_left && here.precedes(best, a.largest)) best = here;
      }
      best = warp::all_reduce(best, [&](const Placed& one, const Placed& other) {
        return one.precedes(other, a.largest) ? one : other;
      });
      if (lane_index() == 0) {
        thread::store(a.values + row * a.k + j, thread::load(x + best.place));
        thread::store(a.indices + row * a.k + j, best.place);
      }
      last = best;
    }
  }
};

struct WarpPerRow {
  static bool supports(const TopK::Call& call, Why& why) {
    return ThreadPerRow::supports(call, why);
  }
  static void run(const TopK::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WarpPerRowKernel<T>;
      const auto& rows = call.rows;
      launch<Kernel>({.blocks = divide_up(rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
                     context.stream,
                     {rows.as<const T>(kX), rows.as<T>(kValues), rows.as<int64_t>(kIndices),
                      rows.rows, rows.columns, call.k, call.largest});
    });
  }
};

inline constexpr Rung kWarpPerRow =
    rung_of<WarpPerRow, kFloats, TopK>({.name = "warp_per_row",
                                        .from = "thread_per_row",
                                        .idea = "a warp a row, k searches by all lanes"});
#endif

}  // namespace ws::topk
