// Unmarked: floats that one block leaves for another and that are their own sign of being there. A
// word of zeros is none; a zero is told as -0, which is the same to all who add. So there is no
// counter, no fence and no mark: who waits looks at the words themselves until they are not zeros,
// and leaves zeros. Which blocks may wait for which is up to the caller.
#pragma once

#include <bit>

#include "warpsmith/ptx/flag_vector.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

struct Unmarked {
  template <int N>
  __device__ __forceinline__ static void tell(float* to, const Vec<float, N>& numbers) {
    Vec<uint32_t, N> words;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto word = std::bit_cast<uint32_t>(numbers[i]);
      words[i] = word == 0 ? kNegativeZero : word;
    }
    ptx::st_global_relaxed(reinterpret_cast<uint32_t*>(to), words);
  }
  // What is there now, and, in `are_there`, whether nothing is missing.
  template <int N>
  __device__ __forceinline__ static Vec<float, N> look(const float* at, bool& are_there) {
    const auto words = ptx::ld_global_relaxed<N>(reinterpret_cast<const uint32_t*>(at));
    Vec<float, N> numbers;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      are_there &= words[i] != 0;
      numbers[i] = std::bit_cast<float>(words[i]);
    }
    return numbers;
  }
  // By the only thread that waits for them.
  template <int N>
  __device__ __forceinline__ static void clear(float* at) {
    ptx::st_global_relaxed(reinterpret_cast<uint32_t*>(at), Vec<uint32_t, N>{});
  }

 private:
  static constexpr uint32_t kNegativeZero = 1U << 31;
};

}  // namespace ws::thread
#endif
