// The epilogue as the rungs apply it: activation(alpha * sum + beta * source), in f32.
//
// Which activation is a question of the whole call, asked once for many sums: a kernel for each
// would be five times the code, and the branch costs nothing where a thread has tens of sums.
#pragma once

#include "kernels/elementwise/functors.hpp"
#include "kernels/linear/operations.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::linear {

// f(the activation, as a function of one float).
template <class F>
__device__ __forceinline__ void with_activation(Activation activation, F&& f) {
  switch (activation) {
    case Activation::kRelu: f(elementwise::Relu::Functor{}); break;
    case Activation::kGelu: f(elementwise::Gelu::Functor{}); break;
    case Activation::kGeluTanh: f(elementwise::Gelu::TanhFunctor{}); break;
    case Activation::kSilu: f(elementwise::Swish::Functor{}); break;
    default: f([](float x) { return x; });
  }
}

// What is added to a product, element by element, and what becomes of the sum. T: the source's.
template <class T>
struct Epilogue {
  const T* source = nullptr;  // null: nothing is added
  int64_t row = 0;            // its strides
  int64_t column = 0;
  float alpha = 1;
  float beta = 1;
  Activation activation = Activation::kNone;

  Epilogue() = default;
  explicit Epilogue(const Added& added)
      : source(added.source.as<const T>()),
        row(added.source.row),
        column(added.source.column),
        alpha(added.alpha),
        beta(added.beta),
        activation(added.activation) {}

  // Element (i, j) of what is added.
  __device__ __forceinline__ float added(int64_t i, int64_t j WS_AND_PLACE) const {
    if (source == nullptr) return 0;
    return beta * to_float(thread::load(source + i * row + j * column WS_PASS_AND_PLACE));
  }
  // Of one sum.
  __device__ __forceinline__ float operator()(float sum, int64_t i, int64_t j WS_AND_PLACE) const {
    float y = alpha * sum + added(i, j WS_PASS_AND_PLACE);
    with_activation(activation, [&](const auto& function) { y = function(y); });
    return y;
  }
};

}  // namespace ws::linear
#endif
