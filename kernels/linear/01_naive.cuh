// Idea: a thread computes one element, and finishes it while it has it: scale, bias, activation.
// The textbook's product with three more lines.
// Traffic: gemm/naive's, and an element of the bias a thread; y is written once. As operations of
//   their own the sum and the activation would read and write y twice more.
// Limits: dense row-major matrices; input is a bias [N] or a dense [M, N]; y has the
//   dtype of input.
#pragma once

#include "kernels/elementwise/functors.hpp"
#include "kernels/gemm/plain.hpp"
#include "kernels/linear/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::linear {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    const T* input;     // [N], or [M, N]; null where beta is 0
    int64_t input_row;  // 0, or N
    const T* mat1;      // [M, K]
    const T* mat2;      // [K, N]
    T* y;               // [M, N]
    int64_t m, n, k;
    float alpha, beta;
    Activation activation;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= g.m * g.n) return;
    const int64_t row = index / g.n;
    const int64_t column = index % g.n;
    float sum = 0;
    for (int64_t i = 0; i < g.k; ++i) {
      sum += to_float(thread::load(g.mat1 + row * g.k + i)) *
             to_float(thread::load(g.mat2 + i * g.n + column));
    }
    float y = g.alpha * sum;
    if (g.input != nullptr) {
      y += g.beta * to_float(thread::load(g.input + row * g.input_row + column));
    }
    if (g.activation == Activation::kRelu) y = elementwise::Relu::Functor{}(y);
    if (g.activation == Activation::kGelu) y = elementwise::Gelu::Functor{}(y);
    if (g.activation == Activation::kGeluTanh) y = elementwise::Gelu::TanhFunctor{}(y);
    if (g.activation == Activation::kSilu) y = elementwise::Swish::Functor{}(y);
    thread::store(g.y + index, from_float<T>(y));
  }
};

struct Naive {
  static bool supports(const Call& call, Why& why) {
    return gemm::is_plain(call, why) &&
           why.unless(call.out_dtype == call.dtype, "y has the dtype of input") &&
           why.unless(call.beta == 0 ||
                          ((call.n <= 1 || call.source.column == 1) &&
                           (call.m <= 1 || call.source.row == 0 || call.source.row == call.n)),
                      "input is a bias [N] or a dense [M, N]");
  }

  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call.source.as<const T>(), call.source.row, call.a.as<const T>(), call.b.as<const T>(),
           call.c.as<T>(), call.m, call.n, call.k, call.alpha, call.beta, call.activation});
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, Addmm>({
    .name = "naive",
    .idea = "a thread computes one element, and finishes it while it has it",
});

}  // namespace ws::linear
