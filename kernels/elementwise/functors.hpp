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

struct Add::Functor {
  static constexpr int kInputs = 2;
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

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
};

// x * min(max(x + 3, 0), 6) / 6
struct Hardswish::Functor {
  static constexpr int kInputs = 1;
  // fmaxf drops a NaN, the last factor x brings it back.
  __device__ __forceinline__ float operator()(float x) const {
    return x * (thread::min(thread::max(x + 3, 0.0f), 6.0f) * (1.0f / 6));
  }
};

// |x| <= lambd ? 0 : x
struct Hardshrink::Functor {
  static constexpr int kInputs = 1;
  float lambd;  // rounded to the dtype of x, as torch does
  __device__ __forceinline__ float operator()(float x) const {
    return ::fabsf(x) <= lambd ? 0.0f : x;
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
};

}  // namespace ws::elementwise
#endif
