// What a step of AdamW makes of an element, and of vectors of them.
#pragma once

#include <cmath>

#include "kernels/optimizer/operations.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::optimizer {

// What the device knows of a step. Made before an element's loads, so that it comes with them.
struct Numbers {
  float step;
  float scale = 1;
  float found_inf = 0;

  __device__ __forceinline__ explicit Numbers(const Settings& settings)
      : step(thread::load(settings.step)) {
    if (settings.grad_scale != nullptr) scale = thread::load(settings.grad_scale);
    if (settings.found_inf != nullptr) found_inf = thread::load(settings.found_inf);
  }
  __device__ __forceinline__ bool is_skipped() const { return found_inf != 0; }
};

// The step as a thread computes with it. 1 - beta^t by expm1: near 0, at the first steps, a
// difference would have lost its digits. No branch and no call, which would part an element's
// instructions from its neighbours'.
class Update {
 public:
  __device__ __forceinline__ Update(const Settings& settings, const Numbers& numbers)
      : settings_(settings),
        step_size_(settings.lr * thread::reciprocal(-::expm1f(numbers.step * settings.log_beta1))),
        inverse_root_(thread::rsqrt(-::expm1f(numbers.step * settings.log_beta2))),
        factor_(settings.sign * thread::reciprocal(numbers.scale)) {}

  __device__ __forceinline__ void operator()(float& p, float g, float& m, float& v) const {
    g *= factor_;
    m = thread::fma(settings_.towards, g - m, m);
    v = thread::fma(settings_.beta2, v, settings_.rest2 * g * g);
    const float denominator = thread::fma(thread::sqrt(v), inverse_root_, settings_.eps);
    p = thread::fma(-step_size_ * m, thread::reciprocal(denominator), p * settings_.decay);
  }

 private:
  const Settings& settings_;
  float step_size_;
  float inverse_root_;
  float factor_;
};

// kWidth elements of each operand, at accesses of 16 bytes. load() first, then whatever else there
// is to do, then store().
template <int kWidth, class T, class Moment>
class Elements {
 public:
  __device__ __forceinline__ void load(const T* param, const T* grad, const Moment* exp_avg,
                                       const Moment* exp_avg_sq) {
    p_ = thread::load<kWidth>(param);
    g_ = thread::load<kWidth>(grad);
    m_ = thread::load<kWidth>(exp_avg);
    v_ = thread::load<kWidth>(exp_avg_sq);
  }
  __device__ __forceinline__ void store(const Update& update, T* param, Moment* exp_avg,
                                        Moment* exp_avg_sq) const {
    auto p = thread::convert<float>(p_);
    auto m = thread::convert<float>(m_);
    auto v = thread::convert<float>(v_);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) update(p[i], to_float(g_[i]), m[i], v[i]);
    thread::store(param, thread::convert<T>(p));
    thread::store(exp_avg, thread::convert<Moment>(m));
    thread::store(exp_avg_sq, thread::convert<Moment>(v));
  }

 private:
  Vec<T, kWidth> p_;
  Vec<T, kWidth> g_;
  Vec<Moment, kWidth> m_;
  Vec<Moment, kWidth> v_;
};

// One element of each.
template <class T, class Moment>
__device__ __forceinline__ void update_element(const Update& update, T* param, const T* grad,
                                               Moment* exp_avg, Moment* exp_avg_sq) {
  Elements<1, T, Moment> one;
  one.load(param, grad, exp_avg, exp_avg_sq);
  one.store(update, param, exp_avg, exp_avg_sq);
}

}  // namespace ws::optimizer
#endif

namespace ws::optimizer {

// f.operator()<T, Moment>() with the types of a call's parameters and moments.
template <class F>
void with_types(const OneCall& call, const F& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() {
    if (call.moment_dtype == call.dtype) {
      f.template operator()<T, T>();
    } else if constexpr (!std::is_same_v<T, float>) {
      f.template operator()<T, float>();
    }
  });
}

}  // namespace ws::optimizer
