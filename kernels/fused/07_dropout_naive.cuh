// Idea: a random number is a function of the element's number, so a thread just computes it: no
// state is loaded, none is stored, and no mask is kept for the gradient.
// From naive: one input; of the generator's four words a thread takes one.
// Traffic: x once, y once; torch writes a mask too, of a byte an element.
// Limits: dense tensors. 60 instructions an element, where f32 has 56 and 16 bits 28.
#pragma once

#include "kernels/fused/dropout.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::fused {

template <class T>
struct DropoutNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const T* x;
    T* y;
    int64_t elements;
    Mask mask;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.elements) return;
    const float factor = a.mask.factor_of(i);
    thread::store(a.y + i, from_float<T>(to_float(thread::load(a.x + i)) * factor));
  }
};

struct DropoutNaive {
  static bool supports(const DropoutCall& call, Why& why) {
    return why.unless(call.is_dense, "needs dense tensors in row-major order");
  }
  static void run(const DropoutCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = DropoutNaiveKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, {call.x<T>(), call.y<T>(), call.elements, call.mask});
    });
  }
};

inline constexpr Rung kDropoutNaive = rung_of<DropoutNaive, Dropout>({
    .name = "dropout_naive",
    .from = "naive",
    .idea = "a thread an element: its random number is a function of its number",
});

}  // namespace ws::fused
