// Idea: a thread owns a row and follows the formula: sum exp(x), then divide.
// Traffic: two reads, one write; neighbouring threads read addresses a row apart, so each 32-byte
// sector that is fetched gives one element.
// Limits: exp(x) overflows from x = 88.7 on, so it takes problems whose caller promises |x| <= 64.
// softmax of contiguous tensors.
#pragma once

#include "kernels/softmax/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

#if WS_DEVICE_CODE
template <class T>
struct NaiveKernel {
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

    float sum = 0;
    for (int64_t i = 0; i < a.columns; ++i) {
      sum += thread::fast_exp(to_float(thread::load(x + i)));
    }
    for (int64_t i = 0; i < a.columns; ++i) {
      const float e = thread::fast_exp(to_float(thread::load(x + i)));
      thread::store(y + i, from_float<T>(e / sum));
    }
  }
};

struct Naive {
  static bool supports(const Softmax::Call& call, Why& why) {
    return why.unless(
               call.bounded,
               "does not subtract the maximum, so exp(x) may overflow: needs bounded=true") &&
           is_dense(call, why);
  }
  static void run(const Softmax::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call.rows.as<const T>(0), call.rows.as<T>(1), call.rows.rows, call.rows.columns});
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, Softmax>(
    {.name = "naive", .idea = "a thread a row, exp(x) / sum(exp(x)) as the formula says"});
#endif

}  // namespace ws::softmax
