// Idea: one thread, one element, the whole step of AdamW in one kernel: four numbers come, three
// go. Written with one tensor operation a line it is some ten kernels, which move 20 numbers and
// more.
// Traffic: 28 bytes an element in f32, each once; a warp's access is 128 bytes, but four of them
// are independent, so that more is in flight than of a kernel that reads one tensor.
// Limits: dense tensors of f32, no gradient scaler.
#pragma once

#include <cmath>

#include "kernels/optimizer/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::optimizer {

struct NaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    float* param;
    const float* grad;
    float* exp_avg;
    float* exp_avg_sq;
    int64_t elements;
    Settings settings;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const Settings& s = a.settings;
    const float g = s.sign * thread::load(a.grad + i);
    float p = thread::load(a.param + i);
    float m = thread::load(a.exp_avg + i);
    float v = thread::load(a.exp_avg_sq + i);

    p *= s.decay;
    m += s.towards * (g - m);
    v = s.beta2 * v + s.rest2 * g * g;
    // 1 - beta^t, as -(e^(t log beta) - 1): at the first steps a difference would have few digits.
    const float t = thread::load(s.step);
    const float correction1 = -::expm1f(t * s.log_beta1);
    const float correction2 = -::expm1f(t * s.log_beta2);
    p -= s.lr / correction1 * m / (::sqrtf(v / correction2) + s.eps);

    thread::store(a.param + i, p);
    thread::store(a.exp_avg + i, m);
    thread::store(a.exp_avg_sq + i, v);
  }
};

struct Naive {
  static bool supports(const OneCall& call, Why& why) {
    return why.unless(call.dtype == DType::kF32, "takes f32") &&
           why.unless(call.is_dense, "takes dense tensors of one order") &&
           why.unless(call.settings.grad_scale == nullptr && call.settings.found_inf == nullptr,
                      "knows no gradient scaler");
  }
  static void run(const OneCall& call, const Context& context) {
    launch<NaiveKernel>({.blocks = divide_up(call.elements, NaiveKernel::kThreads),
                         .threads = NaiveKernel::kThreads},
                        context.stream,
                        {call.rows.as<float>(kParam), call.rows.as<const float>(kGrad),
                         call.rows.as<float>(kExpAvg), call.rows.as<float>(kExpAvgSq),
                         call.elements, call.settings});
  }
};

inline constexpr Rung kNaive = rung_of<Naive, DTypes{DType::kF32}, AdamW>({
    .name = "naive",
    .idea = "a thread an element, the whole step: four numbers come, three go",
});

}  // namespace ws::optimizer
