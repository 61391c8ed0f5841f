// Idea: a thread an element of w: its code's level times its group's scale.
// Traffic: w once, an element an access; a byte of codes is read by the two threads it belongs to.
// Limits: none.
#pragma once

#include "kernels/quantized/codes.hpp"

namespace ws::quantized {

template <class T>
struct DequantizeNaiveKernel {
  static constexpr int kThreads = 256;
  using Arguments = DequantizeCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Weight& w = a.weight;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= w.rows * w.columns) return;
    const int64_t n = i / w.columns;
    const int64_t k = i % w.columns;
    const int64_t group = k / w.group;
    const float value = level_at(w, n, k, zero_at(w, n, group)) * scale_at(w, n, group);
    thread::store(a.values.as<T>() + n * a.values.row + k * a.values.column, from_float<T>(value));
  }
};

struct DequantizeNaive {
  static void run(const DequantizeCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = DequantizeNaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.weight.rows * call.weight.columns, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kDequantizeNaive = rung_of<DequantizeNaive, DequantizeBlockwise>({
    .name = "dequantize_naive",
    .idea = "a thread an element: its code's level times its group's scale",
});

}  // namespace ws::quantized
