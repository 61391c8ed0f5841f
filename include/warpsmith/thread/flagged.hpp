// Flagged: a value that travels in the words that say that it is there: 32 bits of it and a mark to
// each, in one access. So no fence stands between the two, and all accesses may be relaxed. Values
// that follow each other in the same words have marks of their own; zero is that of none.
#pragma once

#include <bit>

#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/types.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

template <class T>
struct Flagged {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  static constexpr int kWords = sizeof(T) / 4;  // of a value; zero is none

  // A value, perhaps.
  struct Seen {
    uint64_t words[kWords];
  };

  __device__ __forceinline__ static void publish(uint64_t* at, const T& value,
                                                 uint32_t mark = kThere) {
    const auto halves = std::bit_cast<Halves>(value);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      ptx::st_relaxed<ptx::Scope::kGpu>(at + w, uint64_t{mark} << 32 | halves[w]);
    }
  }
  __device__ __forceinline__ static void look(Seen& seen, const uint64_t* at) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) seen.words[w] = ptx::ld_relaxed<ptx::Scope::kGpu>(at + w);
  }
  __device__ __forceinline__ static T await(Seen& seen, const uint64_t* at,
                                            uint32_t mark = kThere) {
    Halves halves;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      while (seen.words[w] >> 32 != mark) {
        seen.words[w] = ptx::ld_relaxed<ptx::Scope::kGpu>(at + w);
      }
      halves[w] = static_cast<uint32_t>(seen.words[w]);
    }
    return std::bit_cast<T>(halves);
  }
  __device__ __forceinline__ static T awaited(const uint64_t* at, uint32_t mark = kThere) {
    Seen seen;
    look(seen, at);
    return await(seen, at, mark);
  }
  __device__ __forceinline__ static void clear(uint64_t* at) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) ptx::st_relaxed<ptx::Scope::kGpu>(at + w, 0);
  }
  // By the only one who waits for it, who leaves no value there: the first looks once.
  __device__ __forceinline__ static bool take(uint64_t* at, T& value) {
    Seen seen;
    look(seen, at);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if (seen.words[w] >> 32 != kThere) return false;
    }
    value = await(seen, at);
    clear(at);
    return true;
  }
  __device__ __forceinline__ static T taken(uint64_t* at) {
    T value;
    while (!take(at, value)) {
    }
    return value;
  }

 private:
  static constexpr uint32_t kThere = 1;
  using Halves = Vec<uint32_t, kWords>;
};

}  // namespace ws::thread
#endif
