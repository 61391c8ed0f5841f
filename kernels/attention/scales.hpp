// The scales of heads of 8 bits as kernels see them. One that is not above 0 is reported, and
// nothing is written for its heads.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/attention/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/quotient.hpp"

namespace ws::attention {

class HeadScales {
 public:
  // `rung` is of static storage.
  template <class AnyCall>
  HeadScales(const AnyCall& call, const char* rung)
      : numbers_{call.scales.q, call.scales.k, call.scales.v},
        checks_{{rung, "scale_q"}, {rung, "scale_k"}, {rung, "scale_v"}},
        batches_(call.batch),
        heads_(call.heads),
        kv_heads_(call.kv_heads) {}

#if WS_DEVICE_CODE
  struct OfHead {
    float products;  // of q and k
    float values;
    bool are_right;
  };
  __device__ __forceinline__ OfHead of(int64_t batch, int64_t head, int64_t kv_head) const {
    const float q = number(numbers_[0], batch, head);
    const float k = number(numbers_[1], batch, kv_head);
    const float v = number(numbers_[2], batch, kv_head);
    const bool are_right =
        ScaleCheck::is_right(q) && ScaleCheck::is_right(k) && ScaleCheck::is_right(v);
    return {q * k, v, are_right};
  }

  // By threads index, index + threads ...
  __device__ __forceinline__ void report(int64_t index, int64_t threads) const {
#pragma unroll
    for (int tensor = 0; tensor < 3; ++tensor) {
      const PerHead& numbers = numbers_[tensor];
      if (!numbers.exists) continue;
      const int64_t heads = tensor == 0 ? heads_ : kv_heads_;
      const int64_t count = (numbers.batch == 0 ? 1 : batches_) * heads;
      for (int64_t i = index; i < count; i += threads) {
        checks_[tensor](number(numbers, i / heads, i % heads), i);
      }
    }
  }

  // That of a head; 1 where there are none.
  __device__ __forceinline__ static float number(const PerHead& numbers, int64_t batch,
                                                 int64_t head) {
    if (!numbers.exists) return 1;
    return thread::load(numbers.data + batch * numbers.batch + head * numbers.head);
  }
#endif

 private:
  PerHead numbers_[3];
  ScaleCheck checks_[3];
  int64_t batches_;
  int64_t heads_;
  int64_t kv_heads_;
};

#if WS_DEVICE_CODE
// x / scale, for e4m3: of many x, of which each costs nine instructions, where a division of its
// own has two that run at an eighth of the rate. Beyond 512 it is 512; below 2^-100 it is not
// exact. A NaN stays.
class ScaledDown {
 public:
  // Both numbers are first multiplied by a power of two that leaves the scale near 1, so that
  // nothing between them and a quotient that matters leaves the range of f32.
  __device__ __forceinline__ explicit ScaledDown(float scale)
      : power_(std::bit_cast<float>((254 - std::min(std::bit_cast<uint32_t>(scale) >> 23, 253U))
                                    << 23)),
        scale_(scale * power_),
        inverse_(1 / scale_) {}

  __device__ __forceinline__ float operator()(float x) const {
    const float scaled = x * power_;
    const float size = ::fabsf(scaled);
    const float most = 512 * scale_;
    return ::copysignf(thread::quotient(size > most ? most : size, scale_, inverse_), scaled);
  }

 private:
  float power_, scale_, inverse_;
};
#endif

// Of calls that have none.
struct NoScales {
  NoScales(const Call& /*call*/, const char* /*rung*/) {}
};

// Of elements of T.
template <class T>
using ScalesOf = std::conditional_t<sizeof(T) == 1, HeadScales, NoScales>;

}  // namespace ws::attention
