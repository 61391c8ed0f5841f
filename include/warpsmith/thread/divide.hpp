// Division by a number that is the same for all threads, without dividing; and rounding up.
#pragma once

#include <cstdint>

#include "warpsmith/device.hpp"
#include "warpsmith/error.hpp"

namespace ws {

// ceil(a / b) of non-negative integers.
template <class A, class B>
__host__ __device__ constexpr auto divide_up(A a, B b) {
  return (a + b - 1) / b;
}
// The least multiple of b that is not below a.
template <class A, class B>
__host__ __device__ constexpr auto round_up(A a, B b) {
  return divide_up(a, b) * b;
}

}  // namespace ws

#if WS_DEVICE_CODE
namespace ws::thread {

// n / d = (high(n * multiplier) + n) >> shift for 0 <= n < 2^31 and 1 <= d < 2^31, with
// shift = ceil(log2(d)) (Granlund and Montgomery, "Division by invariant integers using
// multiplication", 1994). The host prepares it; a kernel pays three instructions instead of twenty.
class Divider {
 public:
  Divider() = default;
  explicit Divider(int64_t divisor) : divisor_(static_cast<uint32_t>(divisor)) {
    require(divisor >= 1 && divisor < (int64_t{1} << 31), "a divisor of ", divisor,
            " is outside [1, 2^31)");
    while ((uint64_t{1} << shift_) < divisor_) ++shift_;
    multiplier_ = static_cast<uint32_t>(
        (uint64_t{1} << 32) * ((uint64_t{1} << shift_) - divisor_) / divisor_ + 1);
  }

  __host__ __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    const auto high = static_cast<uint32_t>((static_cast<uint64_t>(n) * multiplier_) >> 32);
    return (high + n) >> shift_;
  }
  __host__ __device__ __forceinline__ uint32_t divisor() const { return divisor_; }

 private:
  uint32_t divisor_ = 1;
  uint32_t multiplier_ = 1;  // of 1, with shift 0
  uint32_t shift_ = 0;
};

}  // namespace ws::thread
#endif
