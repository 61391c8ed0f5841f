// Idea: both gradients of a gate in one pass: they share their inputs and the sigmoid.
// From gate_naive: three tensors come and two go, where a kernel for each gradient would read five.
// The formula as calculus gives it: s = sigmoid(gate), silu' = s * (1 + gate * (1 - s)).
// Traffic: five tensors, each once.
// Limits: swiglu_backward of dense tensors.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/fused/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"

namespace ws::fused {

template <class T>
struct GateBackwardNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* grad;
    const T* gate;
    const T* up;
    T* dgate;
    T* dup;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const float grad = to_float(thread::load(a.grad + i));
    const float gate = to_float(thread::load(a.gate + i));
    const float up = to_float(thread::load(a.up + i));
    const float s = thread::sigmoid(gate);
    thread::store(a.dgate + i, from_float<T>(grad * up * s * (1 + gate * (1 - s))));
    thread::store(a.dup + i, from_float<T>(grad * gate * s));
  }
};

struct GateBackwardNaive {
  static bool supports(const SwiGluBackward::Call& call, Why& why) {
    return elementwise::needs_flat(call, why);
  }
  static void run(const SwiGluBackward::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = GateBackwardNaiveKernel<T>;
      const elementwise::Pointers<T, 3, 2> at(call);
      const int64_t elements = call.layout.elements;
      launch<Kernel>(
          {.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {at.inputs[0], at.inputs[1], at.inputs[2], at.outputs[0], at.outputs[1], elements});
    });
  }
};

inline constexpr Rung kGateBackwardNaive = rung_of<GateBackwardNaive, SwiGluBackward>({
    .name = "gate_backward_naive",
    .from = "gate_naive",
    .idea = "a thread an element: both gradients from one reading of the inputs",
});

}  // namespace ws::fused
