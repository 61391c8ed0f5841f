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

// One element of the result from one of each input.
template <class T, class Functor>
__device__ __forceinline__ T apply(const Functor& f, const T (&x)[Functor::kInputs]) {
  if constexpr (Functor::kInputs == 1) {
    return from_float<T>(f(to_float(x[0])));
  } else {
    return from_float<T>(f(to_float(x[0]), to_float(x[1])));
  }
}

// kWidth neighbouring elements, converted in pairs.
template <class T, int kWidth, class Functor>
__device__ __forceinline__ Vec<T, kWidth> apply(const Functor& f,
                                                const Vec<T, kWidth> (&x)[Functor::kInputs]) {
  Vec<float, kWidth> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if constexpr (Functor::kInputs == 1) {
      result[i] = f(to_float(x[0][i]));
    } else {
      result[i] = f(to_float(x[0][i]), to_float(x[1][i]));
    }
  }
  return thread::convert<T>(result);
}

// The tensors of a call.
template <class T, int kInputs>
struct Pointers {
  const T* inputs[kInputs];
  T* output;

  Pointers() = default;
  explicit Pointers(const Operands& operands) {
    for (size_t k = 0; k < kInputs; ++k) inputs[k] = static_cast<const T*>(operands.data[k]);
    output = static_cast<T*>(operands.data[kInputs]);
  }
};

// Whether one index serves all tensors.
inline bool needs_flat(const Operands& call, Why& why) {
  return why.unless(call.layout.is_flat(), "needs dense tensors of one shape and order, got ",
                    call.layout);
}

}  // namespace ws::elementwise
