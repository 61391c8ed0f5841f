// Loads that are several turns ahead of their use.
#pragma once

#include <cstdint>

#include "warpsmith/device.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// use(loaded, i) for i = first, first + step, ... below `end`, where `loaded` is load(i), asked for
// kAhead turns before, so that kAhead of them are in flight: what is one turn ahead arrives one
// latency later than it could, however much a turn leaves to do. load() is called for i beyond
// `end`, too, and has nothing to load there. The turns of a round are apart in the code: registers
// have no index.
template <int kAhead, class Load, class Use>
__device__ __forceinline__ void each_ahead(int64_t first, int64_t end, int64_t step,
                                           const Load& load, const Use& use) {
  decltype(load(first)) ring[kAhead];
#pragma unroll
  for (int s = 0; s < kAhead; ++s) ring[s] = load(first + s * step);
#pragma unroll 1
  for (int64_t i = first; i < end; i += kAhead * step) {
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      const int64_t here = i + s * step;
      if (here >= end) return;
      use(ring[s], here);
      ring[s] = load(here + kAhead * step);
    }
  }
}

}  // namespace ws::thread
#endif
