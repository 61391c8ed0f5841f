// Which lanes of a warp hold the same number.
#pragma once

#include "warpsmith/ptx/vote_alike.hpp"

#if WS_DEVICE_CODE
namespace ws::warp {

// The lanes whose value has the same kBits lowest bits as one's own, one's own among them; all 32
// lanes take part. A ballot a bit, however many numbers there are.
template <int kBits>
__device__ __forceinline__ uint32_t match(uint32_t value WS_AND_PLACE) {
  uint32_t peers = kFullMask;
#pragma unroll
  for (int bit = 0; bit < kBits; ++bit) {
    peers &= ptx::vote_sync_alike(value & 1U << bit WS_PASS_AND_PLACE);
  }
  return peers;
}

}  // namespace ws::warp
#endif
