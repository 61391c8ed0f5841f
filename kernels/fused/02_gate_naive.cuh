// Idea: the gate of a transformer's feed-forward layer, an element a thread: silu(gate) * up.
// From naive: two tensors come from memory, and nothing has to know its column.
// Traffic: both inputs once, the output once: three tensors where silu and a product of their own
//   move five.
// Limits: swiglu of dense tensors.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/fused/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"

namespace ws::fused {

template <class T>
struct GateNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* gate;
    const T* up;
    T* y;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const float gate = to_float(thread::load(a.gate + i));
    const float up = to_float(thread::load(a.up + i));
    const float silu = gate / (1 + thread::exp(-gate));
    thread::store(a.y + i, from_float<T>(silu * up));
  }
};

struct GateNaive {
  static bool supports(const SwiGlu::Call& call, Why& why) {
    return elementwise::needs_flat(call, why);
  }
  static void run(const SwiGlu::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = GateNaiveKernel<T>;
      const elementwise::Pointers<T, 2> at(call);
      const int64_t elements = call.layout.elements;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream, {at.inputs[0], at.inputs[1], at.outputs[0], elements});
    });
  }
};

inline constexpr Rung kGateNaive = rung_of<GateNaive, SwiGlu>({
    .name = "gate_naive",
    .from = "naive",
    .idea = "a thread an element: silu(gate) * up",
});

}  // namespace ws::fused
