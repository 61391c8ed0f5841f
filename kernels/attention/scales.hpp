// The scales of heads of 8 bits as kernels see them. One that is not above 0 is reported, and
// nothing is written for its heads.
#pragma once

#include <type_traits>

#include "kernels/attention/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/thread/memory.hpp"

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

 private:
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

// Of calls that have none.
struct NoScales {
  NoScales(const Call& /*call*/, const char* /*rung*/) {}
};

// Of elements of T.
template <class T>
using ScalesOf = std::conditional_t<sizeof(T) == 1, HeadScales, NoScales>;

}  // namespace ws::attention
