// The operations, as functions of one element. Everything else of this family (rungs, layouts) is
// the same for all of them.
//
// All arithmetic is in f32, whatever the dtype. Budget: an H200 moves 4.2 TB/s and issues 132 SMs x
// 128 lanes x 1.755 GHz = 29.6e12 instructions a second, so a unary operation stays bound by memory
// up to 56 instructions an element in f32 and 28 in f16 and bf16, loads, conversions and stores
// included; of the special-function unit (ex2, rcp: an eighth of that rate) 7 and 3.5. The README
// has what each operation takes of it.
#pragma once

#include "kernels/elementwise/operations.hpp"
#include "warpsmith/thread/math.hpp"

#if WS_DEVICE_CODE
namespace ws::elementwise {

// ---- Functions: y of x ------------------------------------------------------------------------
//
// backward(grad, x) is the gradient of x, grad that of y. Where a slope shares its exponential with
// the value, both(x) gives the two.

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

// a + alpha * b, rounded once.
struct Add::Functor {
  static constexpr int kInputs = 2;
  float alpha;
  __device__ __forceinline__ float operator()(float a, float b) const {
    return thread::fma(alpha, b, a);
  }
};
template <class T, class Visit>
void Add::with_functor(const Call& call, Visit&& visit) {
  visit(Functor{static_cast<float>(call.alpha)});
}

struct Mul::Functor {
  static constexpr int kInputs = 2;
  __device__ __forceinline__ float operator()(float a, float b) const { return a * b; }
};

struct Relu::Functor {
  static constexpr int kInputs = 1;
  // Asked this way round a NaN passes, and so does -0.
  __device__ __forceinline__ float operator()(float x) const { return x < 0 ? 0.0f : x; }
};

// x > 0 ? x : alpha * (e^x - 1)
struct Elu::Functor {
  static constexpr int kInputs = 1;
  float alpha;

  __device__ __forceinline__ float operator()(float x) const {
    return x > 0 ? x : alpha * expm1_of_negative(x);
  }
  __device__ __forceinline__ float backward(float grad, float x) const {
    return x > 0 ? grad : grad * (alpha * thread::fast_exp(x));
  }

 private:
  // e^x - 1 for x <= 0. Close to 0 the subtraction would cancel all digits that matter: there a
  // polynomial x * q(x) serves, relative error 3e-8 down to kFar (fit.py).
  static __device__ __forceinline__ float expm1_of_negative(float x) {
    constexpr float kFar = -0.4f;
    float q = 0.007087481673806906f;
    q = thread::fma(q, x, 0.04125666618347168f);
    q = thread::fma(q, x, 0.16661246120929718f);
    q = thread::fma(q, x, 0.49999773502349854f);
    q = thread::fma(q, x, 1.0f);
    return x > kFar ? x * q : thread::fast_exp(x) - 1;
  }
};
template <class T, class Visit>
void Elu::with_functor(const Call& call, Visit&& visit) {
  visit(Functor{static_cast<float>(call.alpha)});
}

// x * Phi(x), Phi the distribution function of the standard normal: 0.5 * (1 + erf(x / sqrt(2))).
struct Gelu::Functor {
  static constexpr int kInputs = 1;

  // erf, as the formula has it, costs two polynomials and an exponential, and its 1 + erf(x)
  // cancels for x < 0. log2(Phi(-|x|)) is smooth enough for one polynomial, and one ex2 leads back,
  // so the tail keeps its relative accuracy: error below 8e-7 * (|gelu(x)| + 0.01) everywhere.
  // Past the fitted [0, 6] the polynomial only falls, so huge x reach Phi = 0 or 1 by themselves.
  // Coefficients: fit.py.
  __device__ __forceinline__ float operator()(float x) const { return x * distribution(x); }

  // The slope is Phi(x) + x * phi(x), phi the density.
  static __device__ __forceinline__ ValueAndSlope both(float x) {
    constexpr float kRoot = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const float density = kRoot * thread::exp2(x * x * (-0.5F * thread::kLog2E));
    const float below = distribution(x);
    return {x * below, thread::fma(x, density, below)};
  }
  __device__ __forceinline__ float backward(float grad, float x) const {
    return grad * both(x).slope;
  }

  // Phi(x)
  static __device__ __forceinline__ float distribution(float x) {
    const float a = ::fabsf(x);
    float q = -8.598950671512284e-07f;
    q = thread::fma(q, a, 1.365160642308183e-05f);
    q = thread::fma(q, a, -5.193605466047302e-05f);
    q = thread::fma(q, a, -0.0004964184481650591f);
    q = thread::fma(q, a, 0.007587782572954893f);
    q = thread::fma(q, a, -0.05290195345878601f);
    q = thread::fma(q, a, -0.4590604603290558f);
    q = thread::fma(q, a, -1.151123285293579f);
    const float tail = thread::exp2(thread::fma(q, a, -1.0f));  // Phi(-|x|)
    return x < 0 ? tail : 1 - tail;
  }
};

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
struct Gelu::TanhFunctor {
  static constexpr int kInputs = 1;

  // (1 + tanh(u)) / 2 = 1 / (1 + e^-2u): no cancellation for x < 0, and an overflow of the
  // exponential is the right answer, 0. tanh.approx would save an instruction and cost 13 bits.
  __device__ __forceinline__ float operator()(float x) const { return x * distribution(x); }

  // With s = (1 + tanh(u)) / 2 = sigmoid(2u) the slope is s + x * s * (1 - s) * (2u)'. Past the
  // square's limit s * (1 - s) is 0, and what it is a factor of must not be infinite.
  static __device__ __forceinline__ ValueAndSlope both(float x) {
    constexpr float kScale = 2 * 0.79788456080286536F;  // 2 sqrt(2 / pi)
    const float square = x * x;
    const float ratio = thread::fma(square, 0.044715F * kScale, kScale);  // 2u / x
    const Logistic s(x * ratio * -thread::kLog2E);
    const float inner = thread::fma(thread::min(square, 400.0F), 3 * 0.044715F * kScale, kScale);
    return {x * s.value, thread::fma(x * (s.value * s.rest), inner, s.value)};
  }
  __device__ __forceinline__ float backward(float grad, float x) const {
    return grad * both(x).slope;
  }

  // (1 + tanh(u)) / 2
  static __device__ __forceinline__ float distribution(float x) {
    constexpr float kScale = -2 * 0.79788456080286536f * thread::kLog2E;  // -2 sqrt(2/pi) / ln 2
    const float slope = thread::fma(x * x, 0.044715f * kScale, kScale);
    return thread::reciprocal(1 + thread::exp2(x * slope));
  }
};

template <class T, class Visit>
void Gelu::with_functor(const Call& call, Visit&& visit) {
  call.approximate == Approximation::kNone ? visit(Functor{}) : visit(TanhFunctor{});
}

// x * sigmoid(x)
struct Swish::Functor {
  static constexpr int kInputs = 1;
  __device__ __forceinline__ float operator()(float x) const { return x * thread::fast_sigmoid(x); }
  static __device__ __forceinline__ ValueAndSlope both(float x) {
    const Logistic s(x * -thread::kLog2E);
    return {x * s.value, s.value * thread::fma(x, s.rest, 1.0F)};
  }
  __device__ __forceinline__ float backward(float grad, float x) const {
    return grad * both(x).slope;
  }
};

// x * min(max(x + 3, 0), 6) / 6
struct Hardswish::Functor {
  static constexpr int kInputs = 1;
  // fmaxf drops a NaN, the last factor x brings it back.
  __device__ __forceinline__ float operator()(float x) const {
    return x * (thread::min(thread::max(x + 3, 0.0f), 6.0f) * (1.0f / 6));
  }
  __device__ __forceinline__ float backward(float grad, float x) const {
    if (x <= -3) return 0;
    return x >= 3 ? grad : grad * thread::fma(x, 1.0F / 3, 0.5F);
  }
};

// |x| <= lambd ? 0 : x
struct Hardshrink::Functor {
  static constexpr int kInputs = 1;
  float lambd;  // rounded to the dtype of x, as torch does
  __device__ __forceinline__ float operator()(float x) const {
    return ::fabsf(x) <= lambd ? 0.0f : x;
  }
  __device__ __forceinline__ float backward(float grad, float x) const {
    return ::fabsf(x) <= lambd ? 0.0f : grad;
  }
};
template <class T, class Visit>
void Hardshrink::with_functor(const Call& call, Visit&& visit) {
  visit(Functor{to_float(from_float<T>(static_cast<float>(call.lambd)))});
}

// 1 / (1 + e^-x)
struct Sigmoid::Functor {
  static constexpr int kInputs = 1;
  __device__ __forceinline__ float operator()(float x) const { return thread::fast_sigmoid(x); }
  // Of y, not of x.
  __device__ __forceinline__ float backward(float grad, float y) const {
    return grad * (1 - y) * y;
  }
};

// ---- Their gradients --------------------------------------------------------------------------

template <class Functor>
struct BackwardOf {
  static constexpr int kInputs = 2;
  Functor f;
  __device__ __forceinline__ float operator()(float grad, float x) const {
    return f.backward(grad, x);
  }
};
template <class Op, class Forward>
template <class T, class Visit>
void Backward<Op, Forward>::with_functor(const Call& call, Visit&& visit) {
  Forward::template with_functor<T>(call, [&](const auto& f) { visit(BackwardOf{f}); });
}

// x <= threshold ? 0 : grad
struct ThresholdBackward::Functor {
  static constexpr int kInputs = 2;
  float threshold;  // rounded to the dtype of x, as torch does
  // Asked this way round a NaN in x passes grad.
  __device__ __forceinline__ float operator()(float grad, float x) const {
    return x <= threshold ? 0.0f : grad;
  }
};
template <class T, class Visit>
void ThresholdBackward::with_functor(const Call& call, Visit&& visit) {
  visit(Functor{to_float(from_float<T>(static_cast<float>(call.threshold)))});
}

}  // namespace ws::elementwise
#endif
