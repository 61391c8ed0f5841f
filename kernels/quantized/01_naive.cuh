// Idea: a thread an element of y, a group of K after the other: products of codes' levels are added
//   up, and their sum is scaled.
// Traffic: codes once for each row of x; the lanes of a warp read 32 rows of the weight, a byte at
//   a time, each from a sector of its own.
// Limits: none.
#pragma once

#include "kernels/quantized/codes.hpp"

namespace ws::quantized {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 128;
  using Arguments = LinearCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const Weight& w = a.weight;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.m * w.rows) return;
    const int64_t m = i / w.rows;
    const int64_t n = i % w.rows;
    const T* x = a.x.as<const T>() + m * a.x.row;
    float y = 0;
    if (a.bias != nullptr) {
      y = to_float(thread::load(static_cast<const T*>(a.bias) + n * a.bias_step));
    }
    for (int64_t group = 0; group < w.groups; ++group) {
      const int zero = zero_at(w, n, group);
      const int64_t first = group * w.group;
      const int64_t last = first + w.group < w.columns ? first + w.group : w.columns;
      float sum = 0;
      for (int64_t k = first; k < last; ++k) {
        sum += to_float(thread::load(x + k * a.x.column)) * level_at(w, n, k, zero);
      }
      y += sum * scale_at(w, n, group);
    }
    thread::store(a.y.as<T>() + m * a.y.row + n * a.y.column, from_float<T>(y));
  }
};

struct Naive {
  static void run(const LinearCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m * call.weight.rows, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, QuantizedLinear>({
    .name = "naive",
    .idea = "a thread an element of y, group after group",
});

}  // namespace ws::quantized
