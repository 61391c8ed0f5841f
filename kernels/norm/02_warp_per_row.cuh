// Idea: a warp owns a row; lanes take neighbouring elements and add up their sums by shuffles.
// From thread_per_row: a warp's load is 32 elements side by side, all of what it fetches is used.
// Traffic: three reads, one write; the second and third read mostly come from the caches.
// Limits: layer_norm of a dense matrix, with weight and bias.
#pragma once

#include "kernels/norm/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::norm {

template <class T>
struct WarpPerRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = Plain<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    T* y = a.y + row * a.columns;
    const int lane = lane_index();
    const auto plus = [](float p, float q) { return p + q; };

    float sum = 0;
    for (int64_t i = lane; i < a.columns; i += kWarpSize) sum += to_float(thread::load(x + i));
    const float mean = warp::all_reduce(sum, plus) / static_cast<float>(a.columns);

    float squares = 0;
    for (int64_t i = lane; i < a.columns; i += kWarpSize) {
      const float centred = to_float(thread::load(x + i)) - mean;
      squares += centred * centred;
    }
    const float variance = warp::all_reduce(squares, plus) / static_cast<float>(a.columns);
    const float rstd = thread::rsqrt(variance + a.eps);

    for (int64_t i = lane; i < a.columns; i += kWarpSize) {
      const float z = (to_float(thread::load(x + i)) - mean) * rstd;
      const float weight = to_float(thread::load(a.weight + i));
      const float bias = to_float(thread::load(a.bias + i));
      thread::store(y + i, from_float<T>(z * weight + bias));
    }
  }
};

struct WarpPerRow {
  static bool supports(const LayerNorm::Call& call, Why& why) { return is_plain(call, why); }
  static void run(const LayerNorm::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = WarpPerRowKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, plain_of<T>(call));
    });
  }
};

inline constexpr Rung kWarpPerRow = rung_of<WarpPerRow, LayerNorm>({
    .name = "warp_per_row",
    .from = "thread_per_row",
    .idea = "a warp a row: coalesced loads, sums merged by shuffles",
});

}  // namespace ws::norm
