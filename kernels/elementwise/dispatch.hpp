// From a problem, whose operation and dtype are values, to a kernel, where they are types.
#pragma once

#include <cstdlib>

#include "catalogue/catalogue.hpp"
#include "kernels/elementwise/functors.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::elementwise {

// Calls visit(functor, T{}) with the functor of the problem's operation and its element type.
template <class Visit>
void dispatch(const Problem& problem, Visit&& visit) {
  const auto with_type = [&]<class T>(T type) {
    const std::string_view name = problem.operation->name;
    const auto attribute = [&](int i) { return static_cast<float>(problem.attribute(i)); };
    if (name == "add") return visit(Add{}, type);
    if (name == "mul") return visit(Mul{}, type);
    if (name == "relu") return visit(Relu{}, type);
    if (name == "elu") return visit(Elu{attribute(0)}, type);
    if (name == "gelu") {
      return problem.attribute(0) == 0 ? visit(GeluErf{}, type) : visit(GeluTanh{}, type);
    }
    if (name == "swish") return visit(Swish{}, type);
    if (name == "hardswish") return visit(Hardswish{}, type);
    if (name == "hardshrink") {
      return visit(Hardshrink{to_float(from_float<T>(attribute(0)))}, type);
    }
    if (name == "sigmoid") return visit(Sigmoid{}, type);
    throw Error(concatenate("elementwise has no functor for '", name, "'"));
  };
  switch (problem.tensor(0).dtype) {
    case DType::kF32: return with_type(float{});
    case DType::kF16: return with_type(half{});
    case DType::kBf16: return with_type(bf16{});
    default:
      throw Error(
          concatenate("elementwise has no kernel for ", to_string(problem.tensor(0).dtype)));
  }
}

// One element of the result from one of each input.
template <class T, class Op>
__device__ __forceinline__ T apply(const Op& op, const T (&x)[Op::kInputs]) {
  if constexpr (Op::kInputs == 1) {
    return from_float<T>(op(to_float(x[0])));
  } else {
    return from_float<T>(op(to_float(x[0]), to_float(x[1])));
  }
}

// kWidth neighbouring elements, converted in pairs.
template <class T, int kWidth, class Op>
__device__ __forceinline__ Vec<T, kWidth> apply(const Op& op,
                                                const Vec<T, kWidth> (&x)[Op::kInputs]) {
  Vec<float, kWidth> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if constexpr (Op::kInputs == 1) {
      result[i] = op(to_float(x[0][i]));
    } else {
      result[i] = op(to_float(x[0][i]), to_float(x[1][i]));
    }
  }
  return thread::convert<T>(result);
}

// The pointers of a call, for kernels that need one index for all operands.
template <class T, int kInputs>
struct Operands {
  const T* inputs[kInputs];
  T* output;

  Operands() = default;
  explicit Operands(const Problem& problem) {
    for (int k = 0; k < kInputs; ++k) inputs[k] = problem.tensor(k).template as<const T>();
    output = problem.tensor(kInputs).template as<T>();
  }
};

}  // namespace ws::elementwise
