// Warp votes and integer reductions (PTX ISA, "vote.sync", "redux.sync"). All lanes of `mask`
// execute them together.
#pragma once

#include "warpsmith/device.hpp"

namespace ws::ptx {

// Bit i is set if lane i is in `mask` and its predicate holds.
__device__ __forceinline__ uint32_t vote_sync_ballot(uint32_t mask, bool predicate WS_AND_PLACE) {
#ifdef WS_EMULATED
  emulator::at(place);
  struct Payload {
    bool predicate;
    uint32_t result;
  } mine{predicate, 0};
  emulator::converge_warp(mask, "vote.sync.ballot", mine, [](auto lanes) {
    uint32_t ballot = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      if (lanes[i] != nullptr && lanes[i]->predicate) ballot |= 1u << i;
    }
    for (Payload* lane : lanes) {
      if (lane != nullptr) lane->result = ballot;
    }
  });
  return mine.result;
#else
  return __ballot_sync(mask, predicate);
#endif
}

// Whether the predicate holds in any lane of `mask`.
__device__ __forceinline__ bool vote_sync_any(uint32_t mask, bool predicate WS_AND_PLACE) {
#ifdef WS_EMULATED
  return vote_sync_ballot(mask, predicate, place) != 0;
#else
  return __any_sync(mask, predicate) != 0;
#endif
}

// Whether the predicate holds in all lanes of `mask`.
__device__ __forceinline__ bool vote_sync_all(uint32_t mask, bool predicate WS_AND_PLACE) {
#ifdef WS_EMULATED
  return vote_sync_ballot(mask, predicate, place) == mask;
#else
  return __all_sync(mask, predicate) != 0;
#endif
}

namespace detail {
#ifdef WS_EMULATED
template <class T, class Operation>
T reduce_lanes(uint32_t mask, T value, const char* name, Operation operation) {
  emulator::converge_warp(mask, name, value, [&](auto lanes) {
    T* first = nullptr;
    T total{};
    for (T* lane : lanes) {
      if (lane == nullptr) continue;
      total = first == nullptr ? *lane : operation(total, *lane);
      first = lane;
    }
    for (T* lane : lanes) {
      if (lane != nullptr) *lane = total;
    }
  });
  return value;
}
#endif
}  // namespace detail

// Sum over the lanes of `mask`, modulo 2^32. T is int32_t or uint32_t.
template <class T>
__device__ __forceinline__ T redux_sync_add(uint32_t mask, T value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t>);
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::reduce_lanes(mask, value, "redux.sync.add", [](T a, T b) {
    return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  });
#else
  return __reduce_add_sync(mask, value);
#endif
}

// Largest value over the lanes of `mask`.
template <class T>
__device__ __forceinline__ T redux_sync_max(uint32_t mask, T value WS_AND_PLACE) {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t>);
#ifdef WS_EMULATED
  emulator::at(place);
  return detail::reduce_lanes(mask, value, "redux.sync.max",
                              [](T a, T b) { return a < b ? b : a; });
#else
  return __reduce_max_sync(mask, value);
#endif
}

}  // namespace ws::ptx
