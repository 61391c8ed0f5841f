// Idea: a warp a row: lanes take every 32nd element, then hand their sums round by shuffles.
// From naive: neighbouring lanes read neighbouring elements of A and of x.
// Traffic: A once, 128 bytes (64 in 16 bits) a load; x once a row, from L1.
// Limits: contiguous rows of A, dense x and y. One load in flight for each of A and x, four where
//   the compiler unrolls; short rows leave lanes idle.
#pragma once

#include "kernels/gemv/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::gemv {

template <class T>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;

  struct Arguments {
    const T* a;
    const T* x;
    T* y;
    int64_t m, k;
    int64_t pitch;  // from row to row
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, y, m, k, pitch] = arguments;
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= m) return;
    float sum = 0;
    for (int64_t i = lane_index(); i < k; i += kWarpSize) {
      sum += to_float(thread::load(a + row * pitch + i)) * to_float(thread::load(x + i));
    }
    sum = warp::all_reduce(sum, [](float p, float q) { return p + q; });
    if (lane_index() == 0) thread::store(y + row, from_float<T>(sum));
  }
};

struct WarpPerRow {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.has_rows(), "takes an a whose rows are contiguous") &&
           vectors_are_dense(call, why);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WarpPerRowKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kWarps), .threads = Kernel::kThreads},
                     context.stream,
                     {a_of<T>(call), x_of<T>(call), y_of<T>(call), call.m, call.k, call.row});
    });
  }
};

inline constexpr Seed kWarpPerRowSeeds[] = {
    {.name = "sgemv_k32_f32", .dtypes = {DType::kF32}},
    {.name = "hgemv_k32_f16", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWarpPerRow = rung_of<WarpPerRow, Gemv>({
    .name = "warp_per_row",
    .from = "naive",
    .idea = "a warp a row: lanes multiply and add, then shuffle",
    .seeds = kWarpPerRowSeeds,
});

}  // namespace ws::gemv
