// Exchange of a 32-bit register among the lanes of a warp (PTX ISA, "shfl.sync").
//
// The warp is split into segments of kWidth lanes. `up` and `down` give a lane its own value where
// the source would lie outside its segment. In the emulator it is a fault to name a source that no
// lane of the segment can be (a lane or xor mask >= kWidth), and to read from a lane that is not in
// `mask`, which PTX leaves undefined.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

namespace detail {

// PTX operand c: bits 8-12 say which bits of the lane index name its segment, bits 0-4 the lane at
// which a segment ends (its start, for `up`).
template <int kWidth>
constexpr uint32_t shuffle_segment(uint32_t clamp) {
  static_assert(kWidth >= 1 && kWidth <= 32 && (kWidth & (kWidth - 1)) == 0,
                "segments are 1, 2, 4, 8, 16 or 32 lanes wide");
  return (static_cast<uint32_t>(32 - kWidth) << 8) | clamp;
}

#ifdef WS_EMULATED
inline void check_shuffle_operand(int operand, int limit, const char* operation) {
  if (operand < 0 || operand >= limit) {
    emulator::fail(emulator::Fault::kOutOfRange,
                   concatenate(operation, ": ", operand, " is outside [0, ", limit, ")"));
  }
}

// All modes are one exchange: each lane says which lane it reads.
inline uint32_t exchange(uint32_t mask, uint32_t value, int source, const char* operation) {
  struct Payload {
    uint32_t value;
    int source;
    uint32_t result;
  } mine{value, source, 0};
  if (((mask >> source) & 1u) == 0) {
    emulator::fail(emulator::Fault::kOutOfRange,
                   concatenate(operation, ": lane ", lane_index(), " reads lane ", source,
                               ", which is not in the member mask 0x", std::hex, mask));
  }
  emulator::converge_warp(mask, operation, mine, [](auto lanes) {
    emulator::count(emulator::Count::kShuffles);
    for (Payload* lane : lanes) {
      if (lane != nullptr) lane->result = lanes[static_cast<size_t>(lane->source)]->value;
    }
  });
  return mine.result;
}
#endif

}  // namespace detail

// The value of lane `source` of the caller's segment.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_idx(uint32_t mask, uint32_t value, int source) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(31);
#ifdef WS_EMULATED
  detail::check_shuffle_operand(source, kWidth, "shfl.sync.idx");
  return detail::exchange(mask, value, (lane_index() & ~(kWidth - 1)) | source, "shfl.sync.idx");
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(source), "n"(kSegment), "r"(mask));
  return result;
#endif
}

// The value of the lane `delta` below.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_up(uint32_t mask, uint32_t value, int delta) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(0);
#ifdef WS_EMULATED
  detail::check_shuffle_operand(delta, 32, "shfl.sync.up");
  const int lane = lane_index();
  const int source = lane % kWidth >= delta ? lane - delta : lane;
  return detail::exchange(mask, value, source, "shfl.sync.up");
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(delta), "n"(kSegment), "r"(mask));
  return result;
#endif
}

// The value of the lane `delta` above.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_down(uint32_t mask, uint32_t value, int delta) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(31);
#ifdef WS_EMULATED
  detail::check_shuffle_operand(delta, 32, "shfl.sync.down");
  const int lane = lane_index();
  const int source = lane % kWidth + delta < kWidth ? lane + delta : lane;
  return detail::exchange(mask, value, source, "shfl.sync.down");
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.down.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(delta), "n"(kSegment), "r"(mask));
  return result;
#endif
}

// The value of the lane whose index differs in the bits of `lane_mask`.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_bfly(uint32_t mask, uint32_t value, int lane_mask) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(31);
#ifdef WS_EMULATED
  detail::check_shuffle_operand(lane_mask, kWidth, "shfl.sync.bfly");
  return detail::exchange(mask, value, lane_index() ^ lane_mask, "shfl.sync.bfly");
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(lane_mask), "n"(kSegment), "r"(mask));
  return result;
#endif
}

}  // namespace ws::ptx
