// Idea: subtract the row's maximum first, so that no exponential exceeds 1.
// From naive: right for every input, at the price of a third read of the row.
// Traffic: three reads, one write, still a thread a row.
// Limits: softmax of contiguous tensors.
#pragma once

#include "kernels/softmax/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

#if WS_DEVICE_CODE
template <class T>
struct SafeKernel {
  static constexpr int kThreads = 128;
  struct Arguments {
    const T* x;
    T* y;
    int64_t rows;
    int64_t columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    const T* x = a.x + row * a.columns;
    T* y = a.y + row * a.columns;

    float max = -INFINITY;
    for (int64_t i = 0; i < a.columns; ++i) max = fmaxf(max, to_float(thread::load(x + i)));
    float sum = 0;
    for (int64_t i = 0; i < a.columns; ++i) {
      sum += thread::fast_exp(to_float(thread::load(x + i)) - max);
    }
    for (int64_t i = 0; i < a.columns; ++i) {
      const float e = thread::fast_exp(to_float(thread::load(x + i)) - max);
      thread::store(y + i, from_float<T>(e / sum));
    }
  }
};

struct Safe {
  static bool supports(const Softmax::Call& call, Why& why) { return is_dense(call, why); }
  static void run(const Softmax::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = SafeKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call.rows.as<const T>(0), call.rows.as<T>(1), call.rows.rows, call.rows.columns});
    });
  }
};

inline constexpr Rung kSafe = rung_of<Safe, Softmax>(
    {.name = "safe",
     .from = "naive",
     .idea = "subtract the maximum first: right for every input, three reads"});
#endif

}  // namespace ws::softmax
