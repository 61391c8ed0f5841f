// Idea: strides, once more. A bias is a matrix whose rows lie 0 apart, a gradient that is added up
//   a source that is its own destination, a gate a second sum beside the first.
// From naive: every operand is a pointer and two strides.
// Traffic: gemm/any_layout's; of a gated product two columns of the weight a thread.
// Limits: none.
#pragma once

#include "kernels/gemm/02_any_layout.cuh"
#include "kernels/linear/epilogue.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::linear {

// Source: the dtype of what is added; Out: of what is written.
template <class T, class Source, class Out>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    gemm::View<const T> a;
    gemm::View<const T> b;
    gemm::View<Out> c;
    Epilogue<Source> epilogue;
    int64_t m, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= g.m * g.n) return;
    const int64_t row = index / g.n;
    const int64_t column = index % g.n;
    float sum = 0;
    for (int64_t i = 0; i < g.k; ++i) {
      sum += to_float(thread::load(g.a.at(row, i))) * to_float(thread::load(g.b.at(i, column)));
    }
    thread::store(g.c.at(row, column), from_float<Out>(g.epilogue(sum, row, column)));
  }
};

template <class T>
struct GatedAnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    gemm::View<const T> a;
    gemm::View<const T> b;
    gemm::View<T> c;
    int64_t m, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= g.m * g.n) return;
    const int64_t row = index / g.n;
    const int64_t column = index % g.n;
    float gate = 0;
    float up = 0;
    for (int64_t i = 0; i < g.k; ++i) {
      const float x = to_float(thread::load(g.a.at(row, i)));
      gate += x * to_float(thread::load(g.b.at(i, column)));
      up += x * to_float(thread::load(g.b.at(i, g.n + column)));
    }
    thread::store(g.c.at(row, column), from_float<T>(elementwise::Swish::Functor{}(gate)*up));
  }
};

struct AnyLayout {
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      if (call.source_dtype == call.dtype) {
        call.out_dtype == call.dtype ? run_typed<T, T, T>(call, context)
                                     : run_typed<T, T, float>(call, context);
      } else {
        run_typed<T, float, float>(call, context);
      }
    });
  }
  static void run(const GatedCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = GatedAnyLayoutKernel<T>;
      launch<Kernel>({.blocks = blocks_of<Kernel>(call), .threads = Kernel::kThreads},
                     context.stream, {call.a, call.b, call.c, call.m, call.n, call.k});
    });
  }

 private:
  template <class Kernel>
  static int64_t blocks_of(const gemm::Call& call) {
    return divide_up(call.m * call.n, Kernel::kThreads);
  }
  template <class T, class Source, class Out>
  static void run_typed(const Call& call, const Context& context) {
    using Kernel = AnyLayoutKernel<T, Source, Out>;
    launch<Kernel>({.blocks = blocks_of<Kernel>(call), .threads = Kernel::kThreads}, context.stream,
                   {call.a, call.b, call.c, Epilogue<Source>(call), call.m, call.n, call.k});
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, Addmm, SwigluLinear, GemmAccumulate>({
    .name = "any_layout",
    .from = "naive",
    .idea = "strides of 0 for a bias, a source that is the destination, a gate beside its sum",
});

}  // namespace ws::linear
