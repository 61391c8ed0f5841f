// What is done with a channel by kernels that keep two sums for each element of a vector and find
// out afterwards which channel an element is of. A job has:
//
//   Element; kInputs, how many tensors are read; Total, of a channel, and how two Merge
//   kPivots: distances are taken from one of a channel's numbers, else from center(channel)
//   add(first, second, x, i, from): element i of a vector, to the two sums
//   total(count, from, first, second) -> Total, of so many numbers
//   of_total(channel, total) -> Coefficient; apply(coefficient, x, i): what element i becomes
//   finish(channel, total), by one thread
#pragma once

#include "kernels/batch_norm/values.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct NormaliseChannel {
  struct alignas(16) Coefficient {
    float mean;
    float scale;
    float shift;
    float unused;
  };
  using Element = T;
  using Total = thread::Moments;
  using Merge = MergeMoments;
  static constexpr int kInputs = 1;
  static constexpr bool kPivots = true;

  Values weight;
  Values bias;
  Statistics statistics;

  static NormaliseChannel of(const ForwardCall& call) {
    return {call.weight, call.bias, statistics_of(call)};
  }
  template <class X>
  __device__ __forceinline__ static void add(float& sum, float& squares, const X& x, int i,
                                             float pivot) {
    const float away = x[0][i] - pivot;
    sum += away;
    squares = thread::fma(away, away, squares);
  }
  __device__ __forceinline__ static Total total(float count, float pivot, float sum,
                                                float squares) {
    return thread::from_pivot(count, pivot, sum, squares);
  }
  __device__ __forceinline__ Coefficient of_total(int64_t c, const Total& total) const {
    const Normal normal = statistics.normal(total);
    return {normal.mean, normal.rstd * of_channel(weight, c, 1.0F), of_channel(bias, c), 0.0F};
  }
  template <class X>
  __device__ __forceinline__ float apply(const Coefficient& of, const X& x, int i) const {
    return thread::fma(x[0][i] - of.mean, of.scale, of.shift);
  }
  __device__ __forceinline__ void finish(int64_t c, const Total& total) const {
    statistics.finish(c, total);
  }
};

template <class T>
struct DifferentiateChannel {
  struct alignas(16) Coefficient {
    float mean;
    float scale;
    float shift;
    float slope;
  };
  using Element = T;
  using Total = Sums;
  using Merge = PlusSums;
  static constexpr int kInputs = 2;  // grad, x
  static constexpr bool kPivots = false;

  GradientRule rule;

  static DifferentiateChannel of(const BackwardCall& call) { return {rule_of(call)}; }
  __device__ __forceinline__ float center(int64_t c) const { return rule.mean_of(c); }
  template <class X>
  __device__ __forceinline__ static void add(float& grads, float& products, const X& x, int i,
                                             float mean) {
    grads += x[0][i];
    products = thread::fma(x[0][i], x[1][i] - mean, products);
  }
  __device__ __forceinline__ static Total total(float /*count*/, float /*mean*/, float grads,
                                                float products) {
    return {grads, products};
  }
  __device__ __forceinline__ Coefficient of_total(int64_t c, const Total& total) const {
    const Gradient gradient = rule.gradient(c, total);
    return {gradient.mean, gradient.scale, gradient.shift, gradient.slope};
  }
  template <class X>
  __device__ __forceinline__ float apply(const Coefficient& of, const X& x, int i) const {
    const Gradient gradient{of.mean, of.scale, of.shift, of.slope, rule.training};
    return gradient(x[0][i], x[1][i]);
  }
  __device__ __forceinline__ void finish(int64_t c, const Total& total) const {
    rule.finish(c, total);
  }
};

#endif

}  // namespace ws::batch_norm
