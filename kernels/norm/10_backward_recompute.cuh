// Idea: the forward saves nothing; a kernel before the gradients computes the statistics again.
// From backward_per_row: 8 bytes a row less to keep between forward and backward, one more read of
// x.
// Traffic: grad is read three times, x four times, dx is written once.
// Limits: dense matrices, weight of their dtype, no statistics given.
#pragma once

#include "kernels/norm/09_backward_per_row.cuh"
#include "warpsmith/thread/math.hpp"

namespace ws::norm {

template <class T, bool kCentred>
struct StatisticsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    const T* x;
    float* mean;
    float* rstd;
    int64_t rows;
    int64_t columns;
    float eps;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    const auto mean_of = [&](const auto& term) {
      float sum = 0;
      for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
        sum += term(to_float(thread::load(x + i)));
      }
      return warp::all_reduce(sum, [](float p, float q) { return p + q; }) /
             static_cast<float>(a.columns);
    };
    float mean = 0;
    if constexpr (kCentred) mean = mean_of([](float v) { return v; });
    const float variance = mean_of([=](float v) { return (v - mean) * (v - mean); });
    if (lane_index() != 0) return;
    if constexpr (kCentred) thread::store(a.mean + row, mean);
    thread::store(a.rstd + row, thread::rsqrt(variance + a.eps));
  }
};

struct BackwardRecompute {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return BackwardPerRow::is_plain(call, why) &&
           why.unless(!call.has_statistics, "computes the statistics again, and they are given");
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    return {.bytes = 2 * sizeof(float) * static_cast<size_t>(call.rows.rows)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = StatisticsKernel<T, Call::kCentred>;
      auto arguments = BackwardPerRow::arguments_of<T>(call);
      float* mean = static_cast<float*>(context.workspace);
      float* rstd = mean + arguments.rows;
      arguments.mean = mean;
      arguments.rstd = rstd;
      if (arguments.rows > 0) {
        launch<Kernel>(
            {.blocks = divide_up(arguments.rows, Kernel::kWarps), .threads = Kernel::kThreads},
            context.stream, {arguments.x, mean, rstd, arguments.rows, arguments.columns, call.eps});
      }
      BackwardPerRow::launch_on<T, Call::kCentred>(arguments, context.stream);
    });
  }
};

inline constexpr Seed kBackwardRecomputeSeeds[] = {
    {.name = "layer_norm_backward_recompute", .operation = "layer_norm_backward"},
    {.name = "rms_norm_backward_recompute", .operation = "rms_norm_backward"},
};
inline constexpr Rung kBackwardRecompute =
    rung_of<BackwardRecompute, LayerNormBackward, RmsNormBackward>({
        .name = "backward_recompute",
        .from = "backward_per_row",
        .idea = "the statistics computed again instead of kept",
        .seeds = kBackwardRecomputeSeeds,
    });

}  // namespace ws::norm
