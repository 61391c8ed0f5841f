// Idea: one thread, one element: y[i] = f(x[i]).
// The first kernel everyone writes. The formulas f stand in functors.hpp.
// Traffic: every byte once, but a warp's f32 access is 128 bytes and its f16 access 64, so an SM
//   runs out of requests in flight before it fills the memory.
// Limits: dense tensors of one shape and order; `strided` takes all others.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::elementwise {

template <class T, class Functor>
struct ScalarKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    Pointers<T, Functor::kInputs> at;
    Functor f;
    int64_t elements;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [at, f, elements] = arguments;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= elements) return;
    // All arithmetic is in f32, whatever the dtype.
    const float x = to_float(thread::load(at.inputs[0] + i));
    if constexpr (Functor::kInputs == 1) {
      thread::store(at.outputs[0] + i, from_float<T>(f(x)));
    } else {
      const float b = to_float(thread::load(at.inputs[1] + i));
      thread::store(at.outputs[0] + i, from_float<T>(f(x, b)));
    }
  }
};

struct Scalar {
  static bool supports(const Operands& call, Why& why) { return needs_flat(call, why); }

  template <class Call>
  static void run(const Call& call, const Context& context) {
    dispatch(call, [&]<class T, class Functor>(const Functor& f) {
      using Kernel = ScalarKernel<T, Functor>;
      const int64_t elements = call.layout.elements;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream, {Pointers<T, Functor::kInputs>(call), f, elements});
    });
  }
};

inline constexpr Seed kScalarSeeds[] = {
    {"{}_f32", {}, {DType::kF32}},
    {"{}_f16", {}, {DType::kF16}},
    {"elementwise_mul_naive_f32", "mul", {DType::kF32}},
    {"elementwise_mul_naive_f16", "mul", {DType::kF16}},
};
inline constexpr Rung kScalar = Operations::rung<Scalar>({
    .name = "scalar",
    .idea = "a thread an element: y[i] = f(x[i])",
    .seeds = kScalarSeeds,
});

}  // namespace ws::elementwise
