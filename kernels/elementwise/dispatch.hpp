// From a call, whose dtype is a value, to a kernel, where it is a type; and what the kernels share.
#pragma once

#include "kernels/elementwise/functors.hpp"
#include "kernels/elementwise/operations.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::elementwise {

// visit.template operator()<T>(functor) with the call's element type and functor.
template <class Call, class Visit>
void dispatch(const Call& call, Visit&& visit) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    Call::Operation::template with_functor<T>(
        call, [&](const auto& functor) { visit.template operator()<T>(functor); });
  });
}

// How many results a functor gives of an element: one, a float, or several, a Vec<float, N>.
template <class Functor>
inline constexpr int kOutputs = [] {
  if constexpr (requires { Functor::kOutputs; }) {
    return Functor::kOutputs;
  } else {
    return 1;
  }
}();

// f(input(0), ...), of as many inputs as f has.
template <class Functor, class Input>
__device__ __forceinline__ auto call_of(const Functor& f, const Input& input) {
  if constexpr (Functor::kInputs == 1) {
    return f(input(0));
  } else if constexpr (Functor::kInputs == 2) {
    return f(input(0), input(1));
  } else {
    static_assert(Functor::kInputs == 3);
    return f(input(0), input(1), input(2));
  }
}

// kWidth neighbouring elements of each result from those of each input, Vec<T, kWidth> or
// row::Packed<T, kWidth>, converted in pairs.
template <class T, int kWidth, class Functor, class Elements>
__device__ __forceinline__ void apply(const Functor& f, const Elements (&x)[Functor::kInputs],
                                      Vec<T, kWidth> (&y)[kOutputs<Functor>]) {
  Vec<float, kWidth> results[kOutputs<Functor>];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const auto result = call_of(f, [&](int k) { return to_float(x[k][i]); });
    if constexpr (kOutputs<Functor> == 1) {
      results[0][i] = result;
    } else {
#pragma unroll
      for (int k = 0; k < kOutputs<Functor>; ++k) results[k][i] = result[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kOutputs<Functor>; ++k) y[k] = thread::convert<T>(results[k]);
}

// The same of a functor of one result.
template <class T, int kWidth, class Functor>
__device__ __forceinline__ Vec<T, kWidth> apply(const Functor& f,
                                                const Vec<T, kWidth> (&x)[Functor::kInputs]) {
  Vec<T, kWidth> y[1];
  apply(f, x, y);
  return y[0];
}

// One element of each result from one of each input.
template <class T, class Functor>
  requires kIsFloat<T>
__device__ __forceinline__ void apply(const Functor& f, const T (&x)[Functor::kInputs],
                                      T (&y)[kOutputs<Functor>]) {
  const auto result = call_of(f, [&](int k) { return to_float(x[k]); });
  if constexpr (kOutputs<Functor> == 1) {
    y[0] = from_float<T>(result);
  } else {
#pragma unroll
    for (int k = 0; k < kOutputs<Functor>; ++k) y[k] = from_float<T>(result[k]);
  }
}
template <class T, class Functor>
__device__ __forceinline__ T apply(const Functor& f, const T (&x)[Functor::kInputs]) {
  T y[1];
  apply(f, x, y);
  return y[0];
}

// The tensors of a call.
template <class T, int kInputs, int kOutputCount = 1>
struct Pointers {
  const T* inputs[kInputs];
  T* outputs[kOutputCount];

  Pointers() = default;
  explicit Pointers(const Operands& operands) {
    for (size_t k = 0; k < kInputs; ++k) inputs[k] = static_cast<const T*>(operands.data[k]);
    for (size_t k = 0; k < kOutputCount; ++k) {
      outputs[k] = static_cast<T*>(operands.data[kInputs + k]);
    }
  }
};
template <class T, class Functor>
using PointersOf = Pointers<T, Functor::kInputs, kOutputs<Functor>>;

// Whether one index serves all tensors.
inline bool needs_flat(const Operands& call, Why& why) {
  return why.unless(call.layout.is_flat(), "needs dense tensors of one shape and order, got ",
                    call.layout);
}

}  // namespace ws::elementwise
