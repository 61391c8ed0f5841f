// Idea: 16 lanes a channel, one for each state, whose parts of an output meet by shuffles.
// From naive: 16 times the threads; each step has one exponential of a thread, not 16.
// Traffic: as naive's, and each of a channel's lanes loads its u and delta: one access.
// Limits: steps side by side, up to 16 states; a step is a chain of four shuffles.
#pragma once

#include "kernels/selective_scan/formula.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::selective_scan {

template <class T>
struct StatePerThreadKernel {
  static constexpr int kThreads = 128;
  static constexpr int kStates = 16;
  using Arguments = ForwardCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& call) const {
    const int n = thread_index() % kStates;
    const bool mine = n < call.states;
    // Who has no channel of its own does the last one's work once more: shuffles want all lanes.
    const int64_t place = (block_index() * kThreads + thread_index()) / kStates;
    const int64_t row = place < call.rows() ? place : call.rows() - 1;
    const bool writes = place < call.rows();
    const int64_t batch = row / call.dim;
    const int64_t channel = row % call.dim;
    const int64_t group = channel / call.channels_of_group();
    const T* u = call.u.at<const T>(batch, channel);
    const T* delta = call.delta.at<const T>(batch, channel);
    const T* z = call.z.at<const T>(batch, channel);
    const T* b = call.b.at<const T>(batch, group) + n * call.b.state;
    const T* c = call.c.at<const T>(batch, group) + n * call.c.state;
    T* out = call.out.at<T>(batch, channel);
    const float d = of_channel(call.d, channel, 0);
    const float bias = of_channel(call.delta_bias, channel, 0);
    const float a =
        mine ? thread::load(call.a.at<const float>(0, channel) + n * call.a.state) : 0.0F;

    float x = 0;
    if (mine && call.initial_state.exists) {
      x = thread::load(call.initial_state.at<const float>(batch, channel) +
                       n * call.initial_state.state);
    }
    for (int64_t t = 0; t < call.length; ++t) {
      const float input = to_float(thread::load(u + t));
      float size = to_float(thread::load(delta + t)) + bias;
      if (call.softplus) size = softplus(size);
      float part = 0;
      if (mine) {
        const float inflow = size * to_float(thread::load(b + t)) * input;
        x = thread::exp(size * a) * x + inflow;
        part = to_float(thread::load(c + t)) * x;
      }
      float y = warp::all_reduce<kStates>(part, [](float p, float q) { return p + q; });
      if (n == 0 && writes) {
        y += d * input;
        if (call.z.exists) y *= silu(to_float(thread::load(z + t)));
        thread::store(out + t, from_float<T>(y));
      }
    }
    if (mine && writes && call.last_state.exists) {
      thread::store(call.last_state.at<float>(batch, channel) + n * call.last_state.state, x);
    }
  }
};

struct StatePerThread {
  static bool supports(const ForwardCall& call, Why& why) {
    return has_dense_steps(call, {&call.out}, why) &&
           why.unless(call.states <= StatePerThreadKernel<float>::kStates,
                      "gives a channel 16 lanes, not ", call.states);
  }
  static void run(const ForwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = StatePerThreadKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.rows() * Kernel::kStates, int64_t{Kernel::kThreads}),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kStatePerThread = rung_of<StatePerThread, SelectiveScan>(
    {.name = "state_per_thread",
     .from = "naive",
     .idea = "a lane a state; shuffles add up the states' parts of an output"});

}  // namespace ws::selective_scan
#endif
