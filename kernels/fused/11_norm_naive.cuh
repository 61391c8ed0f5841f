// Idea: a layer's bias, its residual and the norm after them in one kernel: a warp a row, which
// keeps its sum in memory on the way.
// From naive: rows depend on all of their elements, so the sum is written, which the next residual
// wants anyway, and read twice more.
// Traffic: two reads, two writes, and two reads of the sum that the caches may have; apart they are
//   three kernels, of nine.
// Limits: bias_residual_layer_norm of dense tensors.
#pragma once

#include "kernels/fused/norms.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::fused {

template <class T>
struct NormNaiveKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    const T* x;
    const T* bias;
    const T* residual;
    const T* weight;
    const T* norm_bias;
    T* y;
    T* sum;
    int64_t rows;
    int64_t columns;
    float eps;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const int64_t first = row * a.columns;
    const auto plus = [](float p, float q) { return p + q; };

    float total = 0;
    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      const float x = to_float(thread::load(a.x + first + i));
      const float bias = to_float(thread::load(a.bias + i));
      const T h = from_float<T>(x + bias + to_float(thread::load(a.residual + first + i)));
      thread::store(a.sum + first + i, h);
      total += to_float(h);
    }
    const float mean = warp::all_reduce(total, plus) / static_cast<float>(a.columns);

    float squares = 0;
    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      const float away = to_float(thread::load(a.sum + first + i)) - mean;
      squares += away * away;
    }
    squares = warp::all_reduce(squares, plus) / static_cast<float>(a.columns);
    const float rstd = thread::rsqrt(squares + a.eps);

    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      const float z = (to_float(thread::load(a.sum + first + i)) - mean) * rstd;
      const float weight = to_float(thread::load(a.weight + i));
      const float norm_bias = to_float(thread::load(a.norm_bias + i));
      thread::store(a.y + first + i, from_float<T>(z * weight + norm_bias));
    }
  }
};

struct NormNaive {
  using Call = BiasResidualLayerNorm::Call;
  static bool supports(const Call& call, Why& why) {
    bool dense = call.rows.outer <= 1 && call.bias.stride == 1 && call.weight.stride == 1 &&
                 call.shift.stride == 1;
    for (int k = 0; k < kNormOperands; ++k) {
      dense = dense && call.rows.inner[static_cast<size_t>(k)] == 1 &&
              (call.rows.outer == 0 || call.rows.stride(k) == call.rows.columns);
    }
    return why.unless(dense, "takes dense tensors");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NormNaiveKernel<T>;
      const auto column = [](const Columns& of) { return static_cast<const T*>(of.data); };
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream,
          {call.rows.as<const T>(kNormX), column(call.bias), call.rows.as<const T>(kNormResidual),
           column(call.weight), column(call.shift), call.rows.as<T>(kNormY),
           call.rows.as<T>(kNormSum), call.rows.rows, call.rows.columns, call.eps});
    });
  }
};

inline constexpr Rung kNormNaive = rung_of<NormNaive, BiasResidualLayerNorm>({
    .name = "norm_naive",
    .from = "naive",
    .idea = "a warp a row: the sum is written once, and read again for mean, variance and output",
});

}  // namespace ws::fused
