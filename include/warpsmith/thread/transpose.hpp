// Squares of small elements in a thread's words, transposed by moving bytes.
#pragma once

#include "warpsmith/ptx/bits.hpp"

namespace ws::thread {

// How many elements of so many bytes share a word: 4, 2 or 1.
__host__ __device__ constexpr int elements_of_word(int element_bytes) {
  return element_bytes < 4 ? 4 / element_bytes : 1;
}

// The square whose row i is the elements of words[i], first ones in the low bits, transposed: two
// instructions for elements of 2 bytes, eight for bytes. A single element of a word, or a word of
// 64 bits, is its own transpose.
template <int kElementBytes, class Word>
__device__ __forceinline__ void transpose_square(
    [[maybe_unused]] Word (&words)[elements_of_word(kElementBytes)]) {
  if constexpr (kElementBytes == 2) {
    const uint32_t low = ptx::permute_bytes(words[0], words[1], 0x5410);
    words[1] = ptx::permute_bytes(words[0], words[1], 0x7632);
    words[0] = low;
  } else if constexpr (kElementBytes == 1) {
    // Bytes 0 and 1 of two rows side by side, then bytes 2 and 3.
    const uint32_t low01 = ptx::permute_bytes(words[0], words[1], 0x5140);
    const uint32_t low23 = ptx::permute_bytes(words[0], words[1], 0x7362);
    const uint32_t high01 = ptx::permute_bytes(words[2], words[3], 0x5140);
    const uint32_t high23 = ptx::permute_bytes(words[2], words[3], 0x7362);
    words[0] = ptx::permute_bytes(low01, high01, 0x5410);
    words[1] = ptx::permute_bytes(low01, high01, 0x7632);
    words[2] = ptx::permute_bytes(low23, high23, 0x5410);
    words[3] = ptx::permute_bytes(low23, high23, 0x7632);
  }
}

}  // namespace ws::thread
