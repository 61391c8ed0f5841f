// Exchange of a 32-bit register among the lanes of a warp (PTX ISA, "shfl.sync").
//
// The warp is split into segments of kWidth lanes. `up` and `down` give a lane its own value where
// the source would lie outside its segment. In the emulator it is a fault to name a source that no
// lane of the segment can be (a lane or xor mask >= kWidth), and to read from a lane that is not in
// `mask`, which PTX leaves undefined.
#pragma once

#include <cstdint>
#include <cstring>

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
  if (operand < 0 || operand >= limit) [[unlikely]] {
    emulator::fail(emulator::Fault::kOutOfRange,
                   concatenate(operation, ": ", operand, " is outside [0, ", limit, ")"));
  }
}

// The lane that each mode reads.
template <int kWidth>
int source_idx(int source) {
  check_shuffle_operand(source, kWidth, "shfl.sync.idx");
  return (lane_index() & ~(kWidth - 1)) | source;
}
template <int kWidth>
int source_up(int delta) {
  check_shuffle_operand(delta, 32, "shfl.sync.up");
  const int lane = lane_index();
  return lane % kWidth >= delta ? lane - delta : lane;
}
template <int kWidth>
int source_down(int delta) {
  check_shuffle_operand(delta, 32, "shfl.sync.down");
  const int lane = lane_index();
  return lane % kWidth + delta < kWidth ? lane + delta : lane;
}
template <int kWidth>
int source_bfly(int lane_mask) {
  check_shuffle_operand(lane_mask, kWidth, "shfl.sync.bfly");
  return lane_index() ^ lane_mask;
}

// The words of a value, which stay where they are.
template <int kCount>
struct Words {
  uint32_t (&all)[kCount];
};

// All modes are one exchange: each lane says which lane it reads. Lanes meet once for all words.
template <int kWords>
void exchange(uint32_t mask, uint32_t (&words)[kWords], int source, const char* operation) {
  struct Payload {
    uint32_t (&words)[kWords];
    int source;
    uint32_t result[kWords];
  } mine{words, source, {}};
  if (((mask >> source) & 1u) == 0) [[unlikely]] {
    emulator::fail(emulator::Fault::kOutOfRange,
                   concatenate(operation, ": lane ", lane_index(), " reads lane ", source,
                               ", which is not in the member mask 0x", std::hex, mask));
  }
  emulator::converge_warp(mask, operation, mine, [](auto lanes) {
    emulator::count(emulator::Count::kShuffles, kWords);
    emulator::count(emulator::Count::kWarpInstructions, kWords - 1);  // beside the meeting's own
    for (Payload* lane : lanes) {
      if (lane == nullptr) continue;
      memcpy(lane->result, lanes[static_cast<size_t>(lane->source)]->words, sizeof(words));
    }
  });
  memcpy(words, mine.result, sizeof(words));
}
#endif

}  // namespace detail

// Each mode of one word. In the emulator also of several, an instruction for each, in one meeting.

// The value of lane `source` of the caller's segment.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_idx(uint32_t mask, uint32_t value,
                                                  int source WS_AND_PLACE) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(31);
#ifdef WS_EMULATED
  emulator::at(place);
  uint32_t words[] = {value};
  detail::exchange(mask, words, detail::source_idx<kWidth>(source), "shfl.sync.idx");
  return words[0];
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(source), "n"(kSegment), "r"(mask));
  return result;
#endif
}
#ifdef WS_EMULATED
template <int kWidth = 32, int kWords>
void shfl_sync_idx(uint32_t mask, detail::Words<kWords> words, int source WS_AND_PLACE) {
  emulator::at(place);
  detail::exchange(mask, words.all, detail::source_idx<kWidth>(source), "shfl.sync.idx");
}
#endif

// The value of the lane `delta` below.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_up(uint32_t mask, uint32_t value,
                                                 int delta WS_AND_PLACE) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(0);
#ifdef WS_EMULATED
  emulator::at(place);
  uint32_t words[] = {value};
  detail::exchange(mask, words, detail::source_up<kWidth>(delta), "shfl.sync.up");
  return words[0];
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.up.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(delta), "n"(kSegment), "r"(mask));
  return result;
#endif
}
#ifdef WS_EMULATED
template <int kWidth = 32, int kWords>
void shfl_sync_up(uint32_t mask, detail::Words<kWords> words, int delta WS_AND_PLACE) {
  emulator::at(place);
  detail::exchange(mask, words.all, detail::source_up<kWidth>(delta), "shfl.sync.up");
}
#endif

// The value of the lane `delta` above.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_down(uint32_t mask, uint32_t value,
                                                   int delta WS_AND_PLACE) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(31);
#ifdef WS_EMULATED
  emulator::at(place);
  uint32_t words[] = {value};
  detail::exchange(mask, words, detail::source_down<kWidth>(delta), "shfl.sync.down");
  return words[0];
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.down.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(delta), "n"(kSegment), "r"(mask));
  return result;
#endif
}
#ifdef WS_EMULATED
template <int kWidth = 32, int kWords>
void shfl_sync_down(uint32_t mask, detail::Words<kWords> words, int delta WS_AND_PLACE) {
  emulator::at(place);
  detail::exchange(mask, words.all, detail::source_down<kWidth>(delta), "shfl.sync.down");
}
#endif

// The value of the lane whose index differs in the bits of `lane_mask`.
template <int kWidth = 32>
__device__ __forceinline__ uint32_t shfl_sync_bfly(uint32_t mask, uint32_t value,
                                                   int lane_mask WS_AND_PLACE) {
  [[maybe_unused]] constexpr uint32_t kSegment = detail::shuffle_segment<kWidth>(31);
#ifdef WS_EMULATED
  emulator::at(place);
  uint32_t words[] = {value};
  detail::exchange(mask, words, detail::source_bfly<kWidth>(lane_mask), "shfl.sync.bfly");
  return words[0];
#else
  uint32_t result = 0;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, %3, %4;"
               : "=r"(result)
               : "r"(value), "r"(lane_mask), "n"(kSegment), "r"(mask));
  return result;
#endif
}
#ifdef WS_EMULATED
template <int kWidth = 32, int kWords>
void shfl_sync_bfly(uint32_t mask, detail::Words<kWords> words, int lane_mask WS_AND_PLACE) {
  emulator::at(place);
  detail::exchange(mask, words.all, detail::source_bfly<kWidth>(lane_mask), "shfl.sync.bfly");
}
#endif

}  // namespace ws::ptx
