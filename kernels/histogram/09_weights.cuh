// Idea: a thread an element; each adds its weight to its bin in global memory.
// From global_atomics: the addition is of f32.
// Traffic: every element and weight once, and an atomic operation of the L2 for each.
// Limits: dense i32. Who adds first is nobody's, so that sums differ from run to run.
#pragma once

#include "kernels/histogram/plain.hpp"

namespace ws::histogram {

struct WeightsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const int32_t* x;
    const float* weights;
    float* sums;  // zero before
    int64_t count;
    IndexCheck check;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.count) return;
    const int32_t bin = thread::load(a.x + i);
    if (a.check(bin, i)) ptx::red_global_add(a.sums + bin, thread::load(a.weights + i));
  }
};

struct Weights {
  static bool supports(const SumBins::Call& call, Why& why) { return is_plain(call, why); }
  static void run(const SumBins::Call& call, const Context& context) {
    set_zero(call.output, static_cast<size_t>(call.bins) * sizeof(float), context.stream);
    if (call.count == 0) return;
    launch<WeightsKernel>(
        {.blocks = divide_up(call.count, int64_t{WeightsKernel::kThreads}),
         .threads = WeightsKernel::kThreads},
        context.stream,
        {static_cast<const int32_t*>(call.x), call.weights, static_cast<float*>(call.output),
         call.count, IndexCheck("sum_bins/weights", "x", call.bins)});
  }
};

inline constexpr Rung kWeights = rung_of<Weights, DTypes{DType::kI32}, SumBins>(
    {.name = "weights",
     .from = "global_atomics",
     .idea = "a thread an element adds its weight in global memory",
     .deterministic = false});

}  // namespace ws::histogram
