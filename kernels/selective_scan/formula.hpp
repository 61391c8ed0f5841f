// What rungs share: functions of a step, loads of several steps, the segment of a recurrence.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>

#include "kernels/selective_scan/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::selective_scan {

// What has steps.
inline std::array<const Operand*, 5> read_of(const Inputs& call) {
  return {&call.u, &call.delta, &call.z, &call.b, &call.c};
}
// Steps of each tensor side by side: of what is read, and of `written`.
inline bool has_dense_steps(const Inputs& call, std::initializer_list<const Operand*> written,
                            Why& why) {
  const auto is_dense = [&](const Operand* operand) {
    return !operand->exists || operand->step == 1 || call.length == 1;
  };
  return why.unless(
      std::ranges::all_of(read_of(call), is_dense) && std::ranges::all_of(written, is_dense),
      "takes steps that lie side by side");
}
// And lines that can be accessed 16 bytes at a time.
inline bool has_vectors(const Inputs& call, std::initializer_list<const Operand*> written,
                        Why& why) {
  const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
  const auto is_aligned = [&](const Operand* operand) {
    return !operand->exists ||
           (reinterpret_cast<uintptr_t>(operand->data) % 16 == 0 && operand->batch % width == 0 &&
            operand->channel % width == 0 && operand->state % width == 0);
  };
  return has_dense_steps(call, written, why) &&
         why.unless(std::ranges::all_of(read_of(call), is_aligned) &&
                        std::ranges::all_of(written, is_aligned),
                    "takes lines that start at multiples of ", width, " elements");
}

#if WS_DEVICE_CODE

// log(1 + e^x) without a branch: x or 0, and log(1 + e) of e = 2^(-|x| log2(e)), a polynomial that
// is off by 3e-8 of itself. All of it is off by 6e-7 of itself where |x| < 8, beyond by what the
// exponent is rounded by.
__device__ __forceinline__ float softplus(float x) {
  constexpr float kOfPowers[] = {-0.0295052361F, 0.0782259479F, -0.136632457F, 0.191060066F,
                                 -0.24842982F,   0.333190978F,  -0.499994934F, 1.0F};
  const float e = thread::exp2(-fabsf(x) * thread::kLog2E);
  float p = 0.00523269363F;
#pragma unroll
  for (const float of_power : kOfPowers) p = thread::fma(p, e, of_power);
  return thread::fma(p, e, thread::max(x, 0));
}
__device__ __forceinline__ float silu(float x) { return x * thread::fast_sigmoid(x); }

// An f32 of each channel; `otherwise` where there is none.
__device__ __forceinline__ float of_channel(const Operand& operand, int64_t channel,
                                            float otherwise) {
  return operand.exists ? thread::load(operand.at<const float>(0, channel)) : otherwise;
}

// x -> decay * x + value: what some steps in a row do to a state.
struct Segment {
  float decay = 1;
  float value = 0;

  __device__ __forceinline__ float operator()(float x) const {
    return thread::fma(decay, x, value);
  }
};
// The one, then the other.
struct Join {
  __device__ __forceinline__ Segment operator()(const Segment& first, const Segment& next) const {
    return {first.decay * next.decay, next(first.value)};
  }
};

// Steps in a row of a thread.
template <int kItems>
using Steps = thread::Tile<float, kItems>;

// How many of kItems steps from `first` lie before `end`.
template <int kItems>
__device__ __forceinline__ int steps_left(int64_t first, int64_t end) {
  const int64_t left = end - first;
  return left >= kItems ? kItems : static_cast<int>(left < 0 ? 0 : left);
}

// How a kernel reads and writes steps, of which the first `left` are there; others are 0.
//
// One at a time, `stride` elements apart.
struct OneByOne {
  template <int kItems, class T>
  __device__ __forceinline__ static Steps<kItems> load(const T* from, int64_t stride, int left) {
    Steps<kItems> steps{};
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (i < left) steps[i] = to_float(thread::load(from + i * stride));
    }
    return steps;
  }
  template <class T, int kItems>
  __device__ __forceinline__ static void store(T* to, int64_t stride, int left,
                                               const Steps<kItems>& steps) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (i < left) thread::store(to + i * stride, from_float<T>(steps[i]));
    }
  }
};
// 16 bytes at a time: steps lie side by side, the first at a multiple of that.
struct InVectors {
  template <int kItems, class T>
  __device__ __forceinline__ static Steps<kItems> load(const T* from, int64_t /*stride*/,
                                                       int left) {
    if (left < kItems) return OneByOne::load<kItems>(from, 1, left);
    const auto vector = thread::load<kItems>(from);
    Steps<kItems> steps;
#pragma unroll
    for (int i = 0; i < kItems; ++i) steps[i] = to_float(vector[i]);
    return steps;
  }
  template <class T, int kItems>
  __device__ __forceinline__ static void store(T* to, int64_t /*stride*/, int left,
                                               const Steps<kItems>& steps) {
    if (left < kItems) return OneByOne::store(to, 1, left, steps);
    Vec<float, kItems> values;
#pragma unroll
    for (int i = 0; i < kItems; ++i) values[i] = steps[i];
    thread::store(to, thread::convert<T>(values));
  }
};

#endif

}  // namespace ws::selective_scan
