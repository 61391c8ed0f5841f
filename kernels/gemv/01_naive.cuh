// Idea: a thread computes one element of y, walking along a row of A.
// The first kernel everyone writes; slow on purpose.
// Traffic: A once in all, but the 32 lanes of a warp read 32 rows: a sector of 32 bytes for each,
//   of which a load uses one element and the next loads the rest, if L1 still has it.
// Limits: a dense row-major A, dense x and y; `any_layout` takes all others.
#pragma once

#include "kernels/gemv/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::gemv {

template <class T>
struct NaiveKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    const T* a;  // [M, K]
    const T* x;  // [K]
    T* y;        // [M]
    int64_t m, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, y, m, k] = arguments;
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= m) return;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += to_float(thread::load(a + row * k + i)) * to_float(thread::load(x + i));
    }
    thread::store(y + row, from_float<T>(sum));
  }
};

struct Naive {
  static bool supports(const Call& call, Why& why) { return is_dense(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream, {a_of<T>(call), x_of<T>(call), y_of<T>(call), call.m, call.k});
    });
  }
};

inline constexpr Rung kNaive =
    rung_of<Naive, Gemv>({.name = "naive", .idea = "a thread computes one element of y"});

}  // namespace ws::gemv
