// Numbers of channels and sets on the device, and what becomes of a set's moments.
#pragma once

#include "catalogue/row_layout.hpp"
#include "kernels/batch_norm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/moments.hpp"
#include "warpsmith/warp/moments.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

struct Plus {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

// Number `at` elements behind the first; `standard` where there are none.
__device__ __forceinline__ float load(const Values& values, int64_t at, float standard = 0) {
  if (values.data == nullptr) return standard;
  switch (values.dtype) {
    case DType::kF16: return to_float(thread::load(static_cast<const half*>(values.data) + at));
    case DType::kBf16: return to_float(thread::load(static_cast<const bf16*>(values.data) + at));
    default: return thread::load(static_cast<const float*>(values.data) + at);
  }
}
__device__ __forceinline__ void store(const Values& values, int64_t at, float value) {
  if (values.data == nullptr) return;
  switch (values.dtype) {
    case DType::kF16:
      return thread::store(static_cast<half*>(values.data) + at, from_float<half>(value));
    case DType::kBf16:
      return thread::store(static_cast<bf16*>(values.data) + at, from_float<bf16>(value));
    default: return thread::store(static_cast<float*>(values.data) + at, value);
  }
}
// Of a channel.
__device__ __forceinline__ float of_channel(const Values& values, int64_t c, float standard = 0) {
  return load(values, c * values.stride, standard);
}
// Of the channels from `first` on, all of which are asked for before one is used.
template <int kCount>
__device__ __forceinline__ void of_channels(const Values& values, int64_t first,
                                            float (&numbers)[kCount], float standard = 0) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) numbers[i] = standard;
  if (values.data == nullptr) return;
  const auto load_as = [&]<class T>(const T* data) {
    constexpr int kWide = kCount < row::kWidest<T> ? kCount : row::kWidest<T>;
    Vec<T, kWide> loaded[kCount / kWide];
    const T* from = data + first * values.stride;
    if (values.stride == 1 && reinterpret_cast<uintptr_t>(from) % sizeof(Vec<T, kWide>) == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += kWide) loaded[i / kWide] = thread::load<kWide>(from + i);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        loaded[i / kWide][i % kWide] = thread::load(from + i * values.stride);
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) numbers[i] = to_float(loaded[i / kWide][i % kWide]);
  };
  switch (values.dtype) {
    case DType::kF16: return load_as(static_cast<const half*>(values.data));
    case DType::kBf16: return load_as(static_cast<const bf16*>(values.data));
    default: return load_as(static_cast<const float*>(values.data));
  }
}
// Where the number of set s is, of `per` sets of a sample.
__device__ __forceinline__ int64_t place_of_set(const Values& values, int64_t s, int64_t per) {
  return s / per * values.sample + s % per * values.stride;
}

// How a set is normalised: (x - mean) * rstd.
struct Normal {
  float mean;
  float rstd;
};

// What becomes of statistics, of all operations; by one thread a set.
struct Statistics {
  Values mean;
  Values rstd;
  Values running_mean;
  Values running_var;
  int64_t per;
  float count;
  float momentum;
  float eps;
  bool given;

  // Of moments that a set's numbers have.
  __device__ __forceinline__ Normal normal(const thread::Moments& m) const {
    if (count == 0) return {NAN, NAN};
    return {m.mean, thread::rsqrt(m.squares / count + eps)};
  }
  // What has been found of set s of a sample, stored and loaded.
  __device__ __forceinline__ void keep(int64_t sample, int64_t s, const Normal& normal) const {
    store(mean, sample * mean.sample + s * mean.stride, normal.mean);
    store(rstd, sample * rstd.sample + s * rstd.stride, normal.rstd);
  }
  __device__ __forceinline__ Normal kept(int64_t sample, int64_t s) const {
    return {load(mean, sample * mean.sample + s * mean.stride),
            load(rstd, sample * rstd.sample + s * rstd.stride)};
  }
  // The same, stored, and running statistics moved along.
  __device__ __forceinline__ Normal finish(int64_t s, const thread::Moments& m) const {
    return finish(s / per, s % per, m);
  }
  // Of set s of a sample.
  __device__ __forceinline__ Normal finish(int64_t sample, int64_t s,
                                           const thread::Moments& m) const {
    const Normal normal = this->normal(m);
    keep(sample, s, normal);
    if (running_mean.data != nullptr && count > 0) {
      const auto move = [&](const Values& values, float with) {
        const float old = of_channel(values, s);
        store(values, s * values.stride, thread::fma(momentum, with - old, old));
      };
      move(running_mean, normal.mean);
      move(running_var, m.squares / (count - 1));
    }
    return normal;
  }
  // What has been stored, or was given.
  __device__ __forceinline__ Normal stored(int64_t s) const {
    if (given) {
      return {of_channel(running_mean, s), thread::rsqrt(of_channel(running_var, s) + eps)};
    }
    return {load(mean, place_of_set(mean, s, per)), load(rstd, place_of_set(rstd, s, per))};
  }
};

inline Statistics statistics_of(const ForwardCall& call) {
  return {.mean = call.mean,
          .rstd = call.rstd,
          .running_mean = call.running_mean,
          .running_var = call.running_var,
          .per = call.layout.per,
          .count = static_cast<float>(call.layout.count),
          .momentum = call.momentum,
          .eps = call.eps,
          .given = call.given};
}

// Moments of numbers that come one by one: distances from the first, so that one pass is enough and
// nothing cancels.
class Running {
 public:
  Running() = default;
  // Of numbers the first of which is known.
  __device__ __forceinline__ explicit Running(float first) : pivot_(first) {}
  __device__ __forceinline__ void add(float x) {
    if (count_ == 0) pivot_ = x;
    count_ += 1;
    const float away = x - pivot_;
    sum_ += away;
    squares_ = thread::fma(away, away, squares_);
  }
  // The same of several at once, the first of which is the first of all where none has come.
  template <int kWidth, class Packed>
  __device__ __forceinline__ void add_all(const Packed& x) {
    if (count_ == 0) pivot_ = x[0];
    add_more<kWidth>(x);
  }
  // The same where the first is known.
  template <int kWidth, class Packed>
  __device__ __forceinline__ void add_more(const Packed& x) {
    count_ += kWidth;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float away = x[i] - pivot_;
      sum_ += away;
      squares_ = thread::fma(away, away, squares_);
    }
  }
  __device__ __forceinline__ thread::Moments moments() const {
    return thread::from_pivot(count_, pivot_, sum_, squares_);
  }

 private:
  float pivot_ = 0;
  float sum_ = 0;
  float squares_ = 0;
  float count_ = 0;
};

// Moments of lanes and warps, any of which may hold nothing.
using MergeMoments = warp::MergeMomentsOfSome;

// What a set's gradient is made of: sums over it of grad and of grad * (x - mean).
struct alignas(8) Sums {
  float grad;
  float product;

  __device__ __forceinline__ static Sums none() { return {0.0F, 0.0F}; }
  __device__ __forceinline__ void add(float g, float away) {
    grad += g;
    product = thread::fma(g, away, product);
  }
};
struct PlusSums {
  __device__ __forceinline__ Sums operator()(const Sums& a, const Sums& b) const {
    return {a.grad + b.grad, a.product + b.product};
  }
};

// dx = grad * scale - shift - (x - mean) * slope; of constant statistics only the first.
struct Gradient {
  float mean;
  float scale;
  float shift;
  float slope;
  bool training;

  __device__ __forceinline__ float operator()(float grad, float x) const {
    const float through = training ? thread::fma(x - mean, slope, shift) : 0.0F;
    return thread::fma(grad, scale, -through);
  }
};

// How batch_norm's sums become gradients.
struct GradientRule {
  Values weight;
  Values mean;
  Values rstd;
  Values dweight;
  Values dbias;
  float inverse_count;
  bool training;

  __device__ __forceinline__ float mean_of(int64_t c) const { return of_channel(mean, c); }
  __device__ __forceinline__ Gradient gradient(int64_t c, const Sums& sums) const {
    return gradient({mean_of(c), of_channel(rstd, c)}, of_channel(weight, c, 1.0F), sums);
  }
  // Where a channel's numbers have been fetched.
  __device__ __forceinline__ Gradient gradient(const Normal& normal, float of_weight,
                                               const Sums& sums) const {
    const float r = normal.rstd;
    const float scale = r * of_weight;
    const float share = scale * inverse_count;
    return {normal.mean, scale, share * sums.grad, share * r * r * sums.product, training};
  }
  // By one thread a channel.
  __device__ __forceinline__ void finish(int64_t c, const Sums& sums) const {
    store(dweight, c * dweight.stride, sums.product * of_channel(rstd, c));
    store(dbias, c * dbias.stride, sums.grad);
  }
};

inline GradientRule rule_of(const BackwardCall& call) {
  return {.weight = call.weight,
          .mean = call.mean,
          .rstd = call.rstd,
          .dweight = call.dweight,
          .dbias = call.dbias,
          .inverse_count = 1.0F / static_cast<float>(std::max<int64_t>(call.layout.count, 1)),
          .training = call.training};
}

#endif

}  // namespace ws::batch_norm
