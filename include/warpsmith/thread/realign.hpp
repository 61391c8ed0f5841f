// What lies across two pieces of 16 bytes.
#pragma once

#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/types.hpp"

namespace ws::thread {

// The 16 bytes that begin at byte `bytes`, 0 to 15 and a multiple of kElementBytes, of two pieces
// that follow one another. Whole words trade places under a condition, which keeps them in
// registers; the rest of the way is one funnel shift a word.
template <int kElementBytes, class Word, int kWords>
__device__ __forceinline__ Vec<Word, kWords> realign(const Vec<Word, kWords>& first,
                                                     const Vec<Word, kWords>& second,
                                                     uint32_t bytes) {
  static_assert(sizeof(Vec<Word, kWords>) == 16);
  static_assert(kElementBytes >= static_cast<int>(sizeof(Word)) || sizeof(Word) == 4,
                "words of 32 bits are shifted");
  Word words[2 * kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = first[i];
    words[kWords + i] = second[i];
  }
#pragma unroll
  for (int step = kWords / 2; step > 0; step /= 2) {
    const bool moves = (bytes & (static_cast<uint32_t>(step) * sizeof(Word))) != 0;
#pragma unroll
    for (int i = 0; i + step < 2 * kWords; ++i) words[i] = moves ? words[i + step] : words[i];
  }
  Vec<Word, kWords> result;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    if constexpr (kElementBytes < static_cast<int>(sizeof(Word))) {
      result[i] = ptx::funnel_shift(words[i], words[i + 1], bytes % sizeof(Word) * 8);
    } else {
      result[i] = words[i];
    }
  }
  return result;
}

}  // namespace ws::thread
