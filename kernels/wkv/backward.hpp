// What the gradient's rungs share.
//
// Forwards, each step leaves its result and the logarithm of what it was divided by, and adds to
// the gradients of u and of w. Of w: how n and m change with it is carried along with them.
// Backwards, P and Q carry what later steps make of n and m.
#pragma once

#include "kernels/wkv/recurrence.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

// A state, and its derivative by w, with the same exponent.
struct Slope {
  State state;
  float p = 0;
  float q = 0;

  // `steps` steps later, `next`, which comes from steps of their own.
  __device__ __forceinline__ void join(float w, float steps, const Slope& next) {
    const Shift shift = state.meet(w, steps, next.state.o);
    if (shift.newer) state.come_from(next.state);
    p = thread::fma(shift.first, thread::fma(steps, state.p, p), shift.second * next.p);
    q = thread::fma(shift.first, thread::fma(steps, state.q, q), shift.second * next.q);
    state.p = thread::fma(shift.first, state.p, shift.second * next.state.p);
    state.q = thread::fma(shift.first, state.q, shift.second * next.state.q);
  }
  __device__ __forceinline__ void step(float w, float k, float v) {
    const Shift shift = state.meet(w, 1, k);
    p = shift.first * (p + state.p);
    q = shift.first * (q + state.q);
    state.p = thread::fma(shift.first, state.p, shift.second * v);
    state.q = thread::fma(shift.first, state.q, shift.second);
  }
};

// What a step reads: a key, a value, a gradient.
struct Given {
  float k;
  float v;
  float g;
};
template <class T>
struct LoadGiven {
  LoadKeyValue<T> key_value;
  const T* g;
  int64_t g_step;

  __device__ __forceinline__ LoadGiven(const BackwardCall& call, const Line& line)
      : key_value(call, line), g(line.of<const T>(call.g)), g_step(call.g.step) {}
  __device__ __forceinline__ Given operator()(int64_t t) const {
    const KeyValue both = key_value(t);
    return {both.k, both.v, to_float(thread::load(g + t * g_step))};
  }
};

// What steps leave for the way back: result and logarithm, [steps, lines].
using Left = Vec<float, 2>;

// Gradients of w and u of a thread's steps.
struct OfChannel {
  float w = 0;
  float u = 0;
};

// A step on the way there: adds to `sums`, moves `slope` on, gives what is left.
__device__ __forceinline__ Outcome step_there(const Line& line, const Given& one, Slope& slope,
                                              OfChannel& sums) {
  const float key = line.u + one.k;
  const Outcome result = outcome_of(slope.state, key, one.v);
  const float own = one.g * thread::exp2(key - result.log_weight);
  sums.u = thread::fma(own, one.v - result.out, sums.u);
  const float scale = one.g * thread::exp2(slope.state.o - result.log_weight);
  sums.w = thread::fma(scale, thread::fma(-result.out, slope.q, slope.p), sums.w);
  slope.step(line.w, one.k, one.v);
  return result;
}

// What the gradient of the last state says. Those of p and q are, with its exponent o, gradients of
// n and m, which go back as those of steps do. o is that of a key, decayed since then, or of the
// first state, and its gradient, n and m staying what they are, goes there.
struct FromLast {
  State later;
  float of_exponent = 0;
  float steps = -1;  // since the key that o is of; as many as there are: the first state

  __device__ __forceinline__ float at(const BackwardCall& call, int64_t t) const {
    return static_cast<float>(call.length - 1 - t) == steps ? of_exponent : 0.0F;
  }
};
// `slope` is at the end of the line; adds to the gradient of w.
__device__ __forceinline__ FromLast from_last(const BackwardCall& call, const Line& line,
                                              const Slope& slope, OfChannel& sums) {
  FromLast found;
  if (!call.g_last_state.exists) return found;
  const State g = load_state(call.g_last_state, line);
  const State& last = slope.state;
  found.later = State(g.p, g.q, -last.o);
  found.of_exponent = g.o - thread::fma(g.p, last.p, g.q * last.q);
  found.steps = last.steps;
  sums.w += thread::fma(g.p, slope.p, thread::fma(g.q, slope.q, found.of_exponent * last.steps));
  return found;
}
// `later` is what all steps and the last state make of the first state.
__device__ __forceinline__ void store_gradient_of_state(const BackwardCall& call, const Line& line,
                                                        const State& later, const FromLast& last) {
  if (!call.gstate.exists) return;
  const State first = first_state(call, line);
  const float scale = thread::exp2(first.o + later.o);
  const float p = scale * later.p;
  const float q = scale * later.q;
  auto* to = line.of<float>(call.gstate);
  thread::store(to, p);
  thread::store(to + call.gstate.step, q);
  thread::store(to + 2 * call.gstate.step,
                thread::fma(first.p, p, thread::fma(first.q, q, last.at(call, -1))));
}

// A step on the way back: writes its gradients, and `later`, which held what the steps behind it
// make of a state, includes it.
template <class T>
__device__ __forceinline__ void step_back(const BackwardCall& call, const Line& line, int64_t t,
                                          const Given& one, const Left& left, const FromLast& last,
                                          State& later) {
  const float out = left[0];
  const float log_weight = left[1];
  const float own = one.g * thread::exp2(line.u + one.k - log_weight);
  const float scale = thread::exp2(one.k + later.o);
  const float gv = thread::fma(scale, later.p, own);
  const float gk = thread::fma(scale, thread::fma(one.v, later.p, later.q),
                               thread::fma(own, one.v - out, last.at(call, t)));
  thread::store(line.of<T>(call.gv) + t * call.gv.step, from_float<T>(gv));
  thread::store(line.of<T>(call.gk) + t * call.gk.step, from_float<T>(gk));
  later.join(line.w, 1, -log_weight, one.g, -one.g * out);
}

// gw and gu of channels: of all batches and parts, in their order. `sums` is [2, parts, lines].
struct SumKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    BackwardCall call;
    const float* sums;
    int64_t parts;
  };
  struct SharedStorage {
    SharedArray<float, 2 * kThreads> of_warps;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const BackwardCall& call = a.call;
    const int64_t channel = block_index() * kWarpSize + lane_index();
    const int64_t count = a.parts * call.batch;  // of numbers for each channel
    float own[2] = {};
    if (channel < call.channels) {
#pragma unroll 4
      for (int64_t i = warp_index(); i < count; i += kWarps) {
        const float* from = a.sums + i * call.channels + channel;
        own[0] += thread::load(from);
        own[1] += thread::load(from + count * call.channels);
      }
    }
    shared.of_warps[thread_index()] = own[0];
    shared.of_warps[kThreads + thread_index()] = own[1];
    ptx::barrier_sync();
    if (warp_index() > 1 || channel >= call.channels) return;
    float sum = 0;
    for (int i = 0; i < kWarps; ++i) {
      const float one = shared.of_warps[warp_index() * kThreads + i * kWarpSize + lane_index()];
      sum += one;
    }
    const Operand& to = warp_index() == 0 ? call.gw : call.gu;
    thread::store(to.at<float>(0, channel), sum);
  }
};
inline void add_up(const BackwardCall& call, const float* sums, int64_t parts, Stream stream) {
  if (call.channels == 0) return;
  launch<SumKernel>(
      {.blocks = divide_up(call.channels, int64_t{kWarpSize}), .threads = SumKernel::kThreads},
      stream, {call, sums, parts});
}

}  // namespace ws::wkv
#endif
