// The operations on elements, as functions of one element of each input. Activations give a value,
// and value and slope together; the gates and biases around them are the same for all.
#pragma once

#include "kernels/elementwise/functors.hpp"
#include "kernels/fused/operations.hpp"

#if WS_DEVICE_CODE
namespace ws::fused {

struct ValueAndSlope {
  float value;
  float slope;
};

// 1 / (1 + 2^z) and what it lacks to 1, each to the last digits: a difference would have none left
// where z is large, and one of them is a factor of the slope.
struct Logistic {
  float value;
  float rest;

  __device__ __forceinline__ explicit Logistic(float z) {
    const float power = thread::exp2(z);
    value = thread::reciprocal(1 + power);
    rest = value > 0 ? power * value : 1.0F;  // of an infinite power
  }
};

// x * sigmoid(x)
struct Silu {
  static __device__ __forceinline__ float value(float x) { return x * thread::fast_sigmoid(x); }
  static __device__ __forceinline__ ValueAndSlope both(float x) {
    const Logistic s(x * -thread::kLog2E);
    return {x * s.value, s.value * thread::fma(x, s.rest, 1.0F)};
  }
};

// x * Phi(x); its slope is Phi(x) + x * phi(x), phi the density of the normal distribution.
struct GeluOfErf {
  static __device__ __forceinline__ float value(float x) { return elementwise::Gelu::Functor{}(x); }
  static __device__ __forceinline__ ValueAndSlope both(float x) {
    constexpr float kRoot = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const float phi = kRoot * thread::exp2(x * x * (-0.5F * thread::kLog2E));
    const float distribution = elementwise::Gelu::Functor::distribution(x);
    return {x * distribution, thread::fma(x, phi, distribution)};
  }
};

// x * s, s = (1 + tanh(u)) / 2 = sigmoid(2u); its slope is s + x * s * (1 - s) * (2u)'.
struct GeluOfTanh {
  static __device__ __forceinline__ float value(float x) {
    return elementwise::Gelu::TanhFunctor{}(x);
  }
  static __device__ __forceinline__ ValueAndSlope both(float x) {
    constexpr float kScale = 2 * 0.79788456080286536F;  // 2 sqrt(2 / pi)
    const float square = x * x;
    const float u = thread::fma(square, 0.044715F * kScale, kScale);  // 2u / x
    const Logistic s(x * u * -thread::kLog2E);
    const float inner = thread::fma(square, 3 * 0.044715F * kScale, kScale);
    return {x * s.value, thread::fma(x * inner, s.value * s.rest, s.value)};
  }
};

template <class Activation>
struct WithBias {
  static constexpr int kInputs = 2;
  static constexpr int kStreams = 1;  // inputs that come from memory, not from the caches
  __device__ __forceinline__ float operator()(float x, float bias) const {
    return Activation::value(x + bias);
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
    return Activation::value(gate) * up;
  }
};

template <class Activation>
struct GateBackward {
  static constexpr int kInputs = 3;
  static constexpr int kStreams = 3;
  static constexpr int kOutputs = 2;
  __device__ __forceinline__ Vec<float, 2> operator()(float grad, float gate, float up) const {
    const ValueAndSlope activation = Activation::both(gate);
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
