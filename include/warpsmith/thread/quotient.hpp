// Quotients by one number, whose inverse is known.
#pragma once

#include "warpsmith/thread/math.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// x / by as a division rounds it, in five instructions; `inverse` is 1 / by. The product is within
// 2 units of the quotient's last place; the first correction makes that less than 1, and the second
// then rounds as a division does (Markstein, "Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990), as long as what is left of x has no bits below f32's last. Of -0
// it is 0, and of an infinity NaN.
__device__ __forceinline__ float quotient(float x, float by, float inverse) {
  float found = x * inverse;
#pragma unroll
  for (int i = 0; i < 2; ++i) found = fma(fma(-found, by, x), inverse, found);
  return found;
}

}  // namespace ws::thread
#endif
