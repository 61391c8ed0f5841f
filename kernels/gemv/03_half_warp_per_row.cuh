// Idea: half a warp a row: two rows share a warp, each with 16 lanes.
// From warp_per_row: rows of 16 elements leave no lane idle.
// Traffic: A once, 64 bytes a row and load (32 in 16 bits).
// Limits: contiguous rows of A, dense x and y. Meant for K = 16; longer rows work, at half the
//   bytes a row and load.
#pragma once

#include "kernels/gemv/02_warp_per_row.cuh"

namespace ws::gemv {

template <class T>
struct HalfWarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kLanes = 16;
  static constexpr int kRows = kThreads / kLanes;
  using Arguments = typename WarpPerRowKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, y, m, k, pitch] = arguments;
    const int lane = thread_index() % kLanes;
    const int64_t own = block_index() * kRows + thread_index() / kLanes;
    const int64_t row = own < m ? own : m - 1;  // lanes beyond the last row help: whole warps meet
    float sum = 0;
    for (int64_t i = lane; i < k; i += kLanes) {
      sum += to_float(thread::load(a + row * pitch + i)) * to_float(thread::load(x + i));
    }
    sum = warp::all_reduce<kLanes>(sum, [](float p, float q) { return p + q; });
    if (lane == 0 && own < m) thread::store(y + own, from_float<T>(sum));
  }
};

struct HalfWarpPerRow : WarpPerRow {
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = HalfWarpPerRowKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kRows), .threads = Kernel::kThreads},
                     context.stream,
                     {a_of<T>(call), x_of<T>(call), y_of<T>(call), call.m, call.k, call.row});
    });
  }
};

inline constexpr Seed kHalfWarpPerRowSeeds[] = {
    {.name = "sgemv_k16_f32", .dtypes = {DType::kF32}},
    {.name = "hgemv_k16_f16", .dtypes = {DType::kF16}},
};
inline constexpr Rung kHalfWarpPerRow = rung_of<HalfWarpPerRow, Gemv>({
    .name = "half_warp_per_row",
    .from = "warp_per_row",
    .idea = "two rows share a warp",
    .seeds = kHalfWarpPerRowSeeds,
});

}  // namespace ws::gemv
