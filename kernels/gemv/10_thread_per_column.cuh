// Idea: where A is stored transposed, a thread that walks down a column is coalesced: its
//   neighbours read the neighbouring columns of the same row.
// From naive: the same loop, the other layout.
// Traffic: A once, 128 bytes (64 in 16 bits) a warp and load; every thread reads the same x.
// Limits: layout t, dense; one load in flight, four where the compiler unrolls; M threads in all.
#pragma once

#include "kernels/gemv/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::gemv {

template <class T>
struct ThreadPerColumnKernel {
  static constexpr int kThreads = 128;

  struct Arguments {
    const T* a;  // [K, M]
    const T* x;  // [K]
    T* y;        // [M]
    int64_t m, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, y, m, k] = arguments;
    const int64_t column = block_index() * kThreads + thread_index();
    if (column >= m) return;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += to_float(thread::load(a + i * m + column)) * to_float(thread::load(x + i));
    }
    thread::store(y + column, from_float<T>(sum));
  }
};

struct ThreadPerColumn {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.has_columns() && (call.k <= 1 || call.column == call.m),
                      "needs a dense a of layout t") &&
           vectors_are_dense(call, why);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ThreadPerColumnKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream, {a_of<T>(call), x_of<T>(call), y_of<T>(call), call.m, call.k});
    });
  }
};

inline constexpr Rung kThreadPerColumn = rung_of<ThreadPerColumn, Gemv>({
    .name = "thread_per_column",
    .from = "naive",
    .idea = "layout t: a thread a column, neighbours read neighbours",
});

}  // namespace ws::gemv
