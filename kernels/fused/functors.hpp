// The operations on elements, as functions of one element of each input. Activations are those of
// elementwise; the gates and biases around them are the same for all.
#pragma once

#include "kernels/elementwise/functors.hpp"
#include "kernels/fused/operations.hpp"

#if WS_DEVICE_CODE
namespace ws::fused {

using Silu = elementwise::Swish::Functor;
using GeluOfErf = elementwise::Gelu::Functor;
using GeluOfTanh = elementwise::Gelu::TanhFunctor;

template <class Activation>
struct WithBias {
  static constexpr int kInputs = 2;
  static constexpr int kStreams = 1;  // inputs that come from memory, not from the caches
  __device__ __forceinline__ float operator()(float x, float bias) const {
    return Activation{}(x + bias);
  }
};

template <class Activation>
struct WithBiasBackward {
  static constexpr int kInputs = 3;
  static constexpr int kStreams = 2;
  __device__ __forceinline__ float operator()(float grad, float x, float bias) const {
    return grad * Activation::both(x + bias).slope;
  }
};

template <class Activation>
struct Gate {
  static constexpr int kInputs = 2;
  static constexpr int kStreams = 2;
  __device__ __forceinline__ float operator()(float gate, float up) const {
    return Activation{}(gate)*up;
  }
};

template <class Activation>
struct GateBackward {
  static constexpr int kInputs = 3;
  static constexpr int kStreams = 3;
  static constexpr int kOutputs = 2;
  __device__ __forceinline__ Vec<float, 2> operator()(float grad, float gate, float up) const {
    const elementwise::ValueAndSlope activation = Activation::both(gate);
    return {grad * up * activation.slope, grad * activation.value};
  }
};

template <template <class> class Around, class Visit>
void with_gelu(Approximation approximate, Visit&& visit) {
  approximate == Approximation::kNone ? visit(Around<GeluOfErf>{}) : visit(Around<GeluOfTanh>{});
}

template <class T, class Visit>
void BiasGelu::with_functor(const Call& call, Visit&& visit) {
  with_gelu<WithBias>(call.approximate, visit);
}
template <class T, class Visit>
void BiasGeluBackward::with_functor(const Call& call, Visit&& visit) {
  with_gelu<WithBiasBackward>(call.approximate, visit);
}
template <class T, class Visit>
void SwiGlu::with_functor(const Call& /*call*/, Visit&& visit) {
  visit(Gate<Silu>{});
}
template <class T, class Visit>
void SwiGluBackward::with_functor(const Call& /*call*/, Visit&& visit) {
  visit(GateBackward<Silu>{});
}
template <class T, class Visit>
void GeGlu::with_functor(const Call& call, Visit&& visit) {
  with_gelu<Gate>(call.approximate, visit);
}
template <class T, class Visit>
void GeGluBackward::with_functor(const Call& call, Visit&& visit) {
  with_gelu<GateBackward>(call.approximate, visit);
}

}  // namespace ws::fused
#endif
