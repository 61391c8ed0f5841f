// Idea: one thread, one element: a bias is added and goes through gelu in registers.
// Unfused these are two kernels, which write x + bias and read it again: twice the traffic, and in
// 16 bits one more rounding. That is all that fusing saves, and here it is everything.
// Traffic: x once, y once; the bias comes from the caches. An access of a warp is 128 bytes in f32
//   and 64 in 16 bits: too few in flight to fill the memory.
// Limits: dense tensors, the exact gelu. Which column an element is in costs a division.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/fused/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"

namespace ws::fused {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    const T* bias;
    T* y;
    int64_t elements;
    int64_t columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const float bias = to_float(thread::load(a.bias + i % a.columns));
    const float v = to_float(thread::load(a.x + i)) + bias;
    // x * Phi(x); erfc keeps its digits where erf is close to -1.
    const float y = 0.5F * v * thread::erfc(v * -0.70710678118654752F);
    thread::store(a.y + i, from_float<T>(y));
  }
};

// Dense rows, and a dense bias: one loop where there is one row, two where the bias repeats.
struct Naive {
  static bool supports(const BiasGelu::Call& call, Why& why) {
    const elementwise::Layout& at = call.layout;
    const auto row_is = [&](size_t k) { return at.rank < 2 || at.strides[k][0] == at.extents[1]; };
    const auto inner = static_cast<size_t>(at.rank > 0 ? at.rank - 1 : 0);
    const auto dense = [&](size_t k) { return at.rank == 0 || at.strides[k][inner] == 1; };
    return why.unless(call.approximate == Approximation::kNone, "computes gelu, not by tanh") &&
           why.unless(at.rank <= 2 && row_is(0) && row_is(2) && dense(0) && dense(1) && dense(2),
                      "takes dense tensors and a dense bias, got ", at);
  }
  static int64_t columns(const BiasGelu::Call& call) {
    return call.layout.rank == 2 ? call.layout.extents[1] : call.layout.elements;
  }
  template <class T>
  static typename NaiveKernel<T>::Arguments arguments(const BiasGelu::Call& call) {
    const elementwise::Pointers<T, 2> at(call);
    return {at.inputs[0], at.inputs[1], at.outputs[0], call.layout.elements, columns(call)};
  }
  static void run(const BiasGelu::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.layout.elements, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, arguments<T>(call));
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, BiasGelu>({
    .name = "naive",
    .idea = "a thread an element: the sum stays in a register on its way to gelu",
});

}  // namespace ws::fused
