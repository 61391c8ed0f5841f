// What rungs share: states, and segments of a line, with exponents of 2.
//
// A key is multiplied by log2(e) where it is loaded, so that each exponential is one instruction.
// Of the two exponentials that bring two numbers to one exponent, one is of 0.
//
// An exponent that decays by w in a step is the key that it came from and the steps since then, not
// a sum of w's: each of these would be rounded, always to the same side, and after 1000 steps
// weights near 2^10 would be off by 3e-4.
#pragma once

#include <cmath>

#include "kernels/wkv/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::wkv {

inline constexpr float kNothing = -1e38F;  // the exponent of a state of no steps

// What two numbers with exponents are multiplied by to have the larger of these.
struct Shift {
  bool newer;  // the second's is larger
  float top;
  float first;
  float second;

  __device__ __forceinline__ Shift(float a, float b) : newer(a < b) {
    // NaN reaches both.
    const float smaller = thread::exp2(newer ? a - b : b - a);
    top = thread::max(a, b);
    first = newer ? smaller : 1.0F;
    second = newer ? 1.0F : smaller;
  }
};

// p * 2^o and q * 2^o. o is `from`, `steps` steps later.
struct State {
  float p = 0;
  float q = 0;
  float o = kNothing;
  float from = kNothing;
  float steps = 0;

  State() = default;
  __device__ __forceinline__ State(float p, float q, float o) : p(p), q(q), o(o), from(o) {}

  // `count` steps later something with the exponent `other` comes: what p and q, and what it
  // brings, are to be multiplied by.
  __device__ __forceinline__ Shift meet(float w, float count, float other) {
    steps += count;
    const Shift shift(thread::fma(w, steps, from), other);
    o = shift.top;
    if (shift.newer) {
      from = other;
      steps = 0;
    }
    return shift;
  }
  // The same; it brings x and y.
  __device__ __forceinline__ void join(float w, float count, float other, float x, float y) {
    const Shift shift = meet(w, count, other);
    p = thread::fma(shift.first, p, shift.second * x);
    q = thread::fma(shift.first, q, shift.second * y);
  }
  // Several steps, which come from `next` by themselves.
  __device__ __forceinline__ void join(float w, float count, const State& next) {
    join(w, count, next.o, next.p, next.q);
  }
  // Where meet() has taken the exponent of `next`: that is of an earlier step.
  __device__ __forceinline__ void come_from(const State& next) {
    from = next.from;
    steps = next.steps;
  }
  __device__ __forceinline__ void step(float w, float k, float v) { join(w, 1, k, v, 1); }
};

// What comes out of a step, and the logarithm (of 2) of what it was divided by.
struct Outcome {
  float out;
  float log_weight;
};
__device__ __forceinline__ float out_of(const State& state, float key, float v) {
  const Shift shift(state.o, key);
  return thread::fma(shift.first, state.p, shift.second * v) *
         thread::reciprocal(thread::fma(shift.first, state.q, shift.second));
}
__device__ __forceinline__ Outcome outcome_of(const State& state, float key, float v) {
  const Shift shift(state.o, key);
  const float weight = thread::fma(shift.first, state.q, shift.second);
  return {thread::fma(shift.first, state.p, shift.second * v) * thread::reciprocal(weight),
          shift.top + thread::fast_log2(weight)};
}

// The channel of a thread: its line among batch * channels, and what belongs to it.
struct Line {
  int64_t batch;
  int64_t channel;
  float w;  // in powers of 2
  float u;

  __device__ __forceinline__ Line(const Inputs& call, int64_t line)
      : batch(line / call.channels), channel(line - batch * call.channels) {
    w = thread::load(call.w.at<const float>(0, channel)) * thread::kLog2E;
    u = thread::load(call.u.at<const float>(0, channel)) * thread::kLog2E;
  }
  // Of a tensor of steps.
  template <class T>
  __device__ __forceinline__ T* of(const Operand& operand) const {
    return operand.at<T>(batch, channel);
  }
};

// The three numbers of a line of a tensor of states.
__device__ __forceinline__ State load_state(const Operand& states, const Line& line) {
  const auto* from = line.of<const float>(states);
  return {thread::load(from), thread::load(from + states.step),
          thread::load(from + 2 * states.step)};
}
__device__ __forceinline__ State first_state(const Inputs& call, const Line& line) {
  if (!call.state.exists) return {};
  const State given = load_state(call.state, line);
  const float o = given.o * thread::kLog2E;
  // The exponent of nothing: times log2(e) it would still be a number, but not come back.
  return {given.p, given.q, o <= kNothing ? kNothing : o};
}
__device__ __forceinline__ void store_state(const ForwardCall& call, const Line& line,
                                            const State& state) {
  auto* to = line.of<float>(call.last_state);
  const float o = state.o <= kNothing ? kNothing : state.o * thread::kLn2;
  thread::store(to, state.p);
  thread::store(to + call.last_state.step, state.q);
  thread::store(to + 2 * call.last_state.step, o);
}

// Calls body(t, values...) for steps [first, last) of lines, kAhead of which are loaded before the
// first is used: what is waited for once, not once a step. load(t) gives a step's values.
template <int kAhead, class Load, class Body>
__device__ __forceinline__ void for_steps(int64_t first, int64_t last, const Load& load,
                                          const Body& body) {
  using Values = decltype(load(first));
  int64_t t = first;
  for (; t + kAhead <= last; t += kAhead) {
    Values values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) values[i] = load(t + i);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) body(t + i, values[i]);
  }
#pragma unroll 1
  for (; t < last; ++t) body(t, load(t));
}
// The same from the last step to the first.
template <int kAhead, class Load, class Body>
__device__ __forceinline__ void for_steps_back(int64_t first, int64_t last, const Load& load,
                                               const Body& body) {
  for_steps<kAhead>(
      0, last - first, [&](int64_t i) { return load(last - 1 - i); },
      [&](int64_t i, const auto& values) { body(last - 1 - i, values); });
}

// A key and a value.
struct KeyValue {
  float k;
  float v;
};
template <class T>
struct LoadKeyValue {
  const T* k;
  const T* v;
  int64_t k_step;
  int64_t v_step;

  __device__ __forceinline__ LoadKeyValue(const Inputs& call, const Line& line)
      : k(line.of<const T>(call.k)),
        v(line.of<const T>(call.v)),
        k_step(call.k.step),
        v_step(call.v.step) {}
  __device__ __forceinline__ KeyValue operator()(int64_t t) const {
    const float key = to_float(thread::load(k + t * k_step));
    // An infinite weight is no number, as in torch.
    return {key < INFINITY ? key * thread::kLog2E : NAN, to_float(thread::load(v + t * v_step))};
  }
};

inline bool lines_supported(const Inputs& call, int threads, Why& why) {
  return why.unless(divide_up(call.lines(), int64_t{threads}) < int64_t{1} << 31,
                    "takes fewer channels");
}

}  // namespace ws::wkv
#endif
