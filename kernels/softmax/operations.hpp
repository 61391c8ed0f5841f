// What the family's operations do with a row, for kernels that are written once for all of them.
//
// A row operation makes one Total of a row's elements, then each output from its element and the
// Total. An element is `Values`: one float of every input.
#pragma once

#include "warpsmith/thread/max_sum.hpp"

#if defined(WS_EMULATED) || defined(__CUDACC__)
namespace ws::softmax {

using thread::exp_approximate;
using thread::kInfinity;
using thread::MaxSum;
using thread::Tile;

template <int kInputs>
using Values = Tile<float, kInputs>;

// y = exp(x - max) / sum, or its logarithm; input: x.
template <bool kLogarithm>
struct Forward {
  static constexpr int kInputs = 1;
  static constexpr float kPadding = -kInfinity;  // an input that changes no total
  using Total = MaxSum;

  __device__ __forceinline__ static Total none() { return MaxSum::none(); }
  __device__ __forceinline__ static Total merge(const Total& a, const Total& b) {
    return thread::merge(a, b);
  }
  __device__ __forceinline__ static Total add(const Total& total, const Values<1>& x) {
    return thread::add(total, x[0]);
  }

  // The Total of a thread's elements; softmax leaves exp(x - their maximum) in their place, so that
  // `end` needs no second exponential.
  template <int N>
  __device__ __forceinline__ static Total begin(Tile<Values<1>, N>& tile) {
    const float max =
        fold(tile, -kInfinity, [](float m, const Values<1>& x) { return fmaxf(m, x[0]); });
    const float shift = thread::finite_or_zero(max);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float e = exp_approximate(tile[i][0] - shift);
      sum += e;
      if constexpr (!kLogarithm) tile[i][0] = e;
    }
    return {max, sum};
  }
  // The output for what `begin` left; `mine` is the Total that it returned.
  __device__ __forceinline__ static float end(const Values<1>& left, const Total& mine,
                                              const Total& total) {
    if constexpr (kLogarithm) {
      return finish(left, total);
    } else {
      return left[0] * (exp_approximate(mine.max - total.max) * ptx::rcp_approx_ftz_f32(total.sum));
    }
  }

  // The output for an element.
  __device__ __forceinline__ static float finish(const Values<1>& x, const Total& total) {
    if constexpr (kLogarithm) {
      return (x[0] - total.max) - logf(total.sum);
    } else {
      return exp_approximate(x[0] - total.max) * ptx::rcp_approx_ftz_f32(total.sum);
    }
  }
};

// dx = (g - sum(g y)) y, of log_softmax dx = g - exp(y) sum(g); inputs: g, the gradient of the
// output, and y, the output.
template <bool kLogarithm>
struct Backward {
  static constexpr int kInputs = 2;
  static constexpr float kPadding = 0;
  using Total = float;

  __device__ __forceinline__ static Total none() { return 0; }
  __device__ __forceinline__ static Total merge(Total a, Total b) { return a + b; }
  __device__ __forceinline__ static Total add(Total total, const Values<2>& v) {
    return kLogarithm ? total + v[0] : fmaf(v[0], v[1], total);
  }
  template <int N>
  __device__ __forceinline__ static Total begin(Tile<Values<2>, N>& tile) {
    return fold(tile, none(), add);
  }
  __device__ __forceinline__ static float end(const Values<2>& v, Total /*mine*/, Total total) {
    return finish(v, total);
  }
  __device__ __forceinline__ static float finish(const Values<2>& v, Total total) {
    return kLogarithm ? v[0] - exp_approximate(v[1]) * total : (v[0] - total) * v[1];
  }
};

}  // namespace ws::softmax
#endif
