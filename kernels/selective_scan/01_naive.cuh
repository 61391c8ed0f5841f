// Idea: a thread a channel walks its steps, the states in registers, as the formula says.
// Traffic: lanes are a whole line of steps apart: a sector of 32 bytes for each element, from L1
// where it lives long enough.
// Limits: steps side by side, up to 16 states; batch * dim threads in all.
#pragma once

#include "kernels/selective_scan/formula.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 64;
  static constexpr int kStates = 16;
  using Arguments = ForwardCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& call) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= call.rows()) return;
    const int64_t batch = row / call.dim;
    const int64_t channel = row % call.dim;
    const int64_t group = channel / call.channels_of_group();
    const T* u = call.u.at<const T>(batch, channel);
    const T* delta = call.delta.at<const T>(batch, channel);
    const T* z = call.z.at<const T>(batch, channel);
    const T* b = call.b.at<const T>(batch, group);
    const T* c = call.c.at<const T>(batch, group);
    const auto* a = call.a.at<const float>(0, channel);
    T* out = call.out.at<T>(batch, channel);
    const float d = of_channel(call.d, channel, 0);
    const float bias = of_channel(call.delta_bias, channel, 0);

    float x[kStates];
#pragma unroll
    for (int n = 0; n < kStates; ++n) {
      x[n] = 0;
      if (n < call.states && call.initial_state.exists) {
        x[n] = thread::load(call.initial_state.at<const float>(batch, channel) +
                            n * call.initial_state.state);
      }
    }
    for (int64_t t = 0; t < call.length; ++t) {
      const float input = to_float(thread::load(u + t));
      float size = to_float(thread::load(delta + t)) + bias;
      if (call.softplus) size = softplus(size);
      float y = d * input;
#pragma unroll
      for (int n = 0; n < kStates; ++n) {
        if (n >= call.states) continue;
        const float decay = thread::exp(size * thread::load(a + n * call.a.state));
        const float inflow = size * to_float(thread::load(b + n * call.b.state + t)) * input;
        x[n] = decay * x[n] + inflow;
        y += to_float(thread::load(c + n * call.c.state + t)) * x[n];
      }
      if (call.z.exists) y *= silu(to_float(thread::load(z + t)));
      thread::store(out + t, from_float<T>(y));
    }
#pragma unroll
    for (int n = 0; n < kStates; ++n) {
      if (n < call.states && call.last_state.exists) {
        thread::store(call.last_state.at<float>(batch, channel) + n * call.last_state.state, x[n]);
      }
    }
  }
};

struct Naive {
  static bool supports(const ForwardCall& call, Why& why) {
    return has_dense_steps(call, {&call.out}, why) &&
           why.unless(call.states <= NaiveKernel<float>::kStates,
                      "holds up to 16 states in registers, not ", call.states);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.rows(), int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, SelectiveScan>(
    {.name = "naive", .idea = "a thread a channel walks its steps, its states in registers"});

}  // namespace ws::selective_scan
#endif
