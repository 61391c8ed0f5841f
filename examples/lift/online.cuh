// A softmax kernel taken out of Warpsmith: the upper half of kernels/softmax/03_online.cuh as it
// is, without the catalogue's half below it. It needs include/warpsmith and nothing else.
#pragma once

#include "warpsmith/standalone.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::softmax {

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

}  // namespace ws::softmax
