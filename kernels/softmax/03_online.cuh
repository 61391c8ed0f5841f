// Idea: keep maximum and sum together; when the maximum grows, scale the sum down.
// From safe: the first two passes are one, so the row is read twice instead of three times.
// Traffic: two reads, one write, still a thread a row.
// Limits: softmax of contiguous tensors.
#pragma once

#include "kernels/softmax/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

#if WS_DEVICE_CODE
template <class T>
struct OnlineKernel {
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

    // m = max(x[0..i]), s = sum(exp(x[0..i] - m))
    float m = -INFINITY;
    float s = 0;
    for (int64_t i = 0; i < a.columns; ++i) {
      const float v = to_float(thread::load(x + i));
      const float larger = fmaxf(m, v);
      const float shift = larger == -INFINITY ? 0 : larger;  // -inf - -inf would be NaN
      s = s * thread::fast_exp(m - shift) + thread::fast_exp(v - shift);
      m = larger;
    }
    for (int64_t i = 0; i < a.columns; ++i) {
      const float e = thread::fast_exp(to_float(thread::load(x + i)) - m);
      thread::store(y + i, from_float<T>(e / s));
    }
  }
};

struct Online {
  static bool supports(const Softmax::Call& call, Why& why) { return is_dense(call, why); }
  static void run(const Softmax::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = OnlineKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call.rows.as<const T>(0), call.rows.as<T>(1), call.rows.rows, call.rows.columns});
    });
  }
};

inline constexpr Rung kOnline = rung_of<Online, Softmax>(
    {.name = "online", .from = "safe", .idea = "maximum and sum in one pass: two reads"});
#endif

}  // namespace ws::softmax
