// Packed: elements in registers as they came from memory.
#pragma once

#include <bit>
#include <cmath>
#include <type_traits>

#include "warpsmith/ptx/half.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::row {

// N elements as the words that hold them. Kernels that pad a row choose between loaded and padding
// words; on the elements themselves, two of which share a register, it would take twice the work.
template <class T, int N>
struct Packed {
  using Word = std::conditional_t<(N * sizeof(T) >= 4), uint32_t, uint16_t>;
  static constexpr int kWords = static_cast<int>(N * sizeof(T) / sizeof(Word));
  static constexpr int kPerWord = N / kWords;

  Vec<Word, kWords> words;

  // N times the same.
  __device__ __forceinline__ static Packed filled(float value) {
    Word word;
    if constexpr (sizeof(T) == 4) {
      word = std::bit_cast<Word>(value);
    } else {
      word = from_float<T>(value).bits;
      if constexpr (kPerWord == 2) word |= word << 16;
    }
    Packed packed;
#pragma unroll
    for (int w = 0; w < kWords; ++w) packed.words[w] = word;
    return packed;
  }
  template <Cache kCache = Cache::kDefault>
  __device__ __forceinline__ static Packed load(const T* pointer WS_AND_PLACE) {
    return {thread::load<kWords, kCache>(reinterpret_cast<const Word*>(pointer) WS_PASS_AND_PLACE)};
  }
  __device__ __forceinline__ float operator[](int i) const {
    if constexpr (sizeof(T) == 4) {
      return std::bit_cast<float>(words[i]);
    } else {
      T element;
      element.bits = static_cast<uint16_t>(words[i / kPerWord] >> (16 * (i % kPerWord)));
      return to_float(element);
    }
  }
};

// Element for element the largest of several; of 16 bits two at a time, and NaN where one is.
template <class T, int N, int kVectors>
__device__ __forceinline__ Packed<T, N> largest_of_each(const Packed<T, N> (&vectors)[kVectors]) {
  Packed<T, N> largest = vectors[0];
#pragma unroll
  for (int v = 1; v < kVectors; ++v) {
#pragma unroll
    for (int w = 0; w < Packed<T, N>::kWords; ++w) {
      auto& word = largest.words[w];
      if constexpr (Packed<T, N>::kPerWord == 2) {
        word = ptx::max_nan_x2<T>(word, vectors[v].words[w]);
      } else {
        word = Packed<T, 1>::filled(::fmaxf(largest[w], vectors[v][w])).words[0];
      }
    }
  }
  return largest;
}
// The largest element of all.
template <class T, int N, int kVectors>
__device__ __forceinline__ float largest(const Packed<T, N> (&vectors)[kVectors]) {
  using Words = Packed<T, N>;
  const Words of_each = largest_of_each(vectors);
  if constexpr (Words::kPerWord == 2) {
    uint32_t both = of_each.words[0];
#pragma unroll
    for (int w = 1; w < Words::kWords; ++w) both = ptx::max_nan_x2<T>(both, of_each.words[w]);
    const Packed<T, 2> last{{{both}}};
    return ::fmaxf(last[0], last[1]);
  } else {
    float max = of_each[0];
#pragma unroll
    for (int i = 1; i < N; ++i) max = ::fmaxf(max, of_each[i]);
    return max;
  }
}

// Inside a loop: elements are converted anew from here on. The compiler would rather keep them
// converted, in twice the registers.
template <class T, int N, int kVectors>
__device__ __forceinline__ void stay_packed([[maybe_unused]] Packed<T, N> (&vectors)[kVectors]) {
#ifndef WS_EMULATED
  if constexpr (Packed<T, N>::kPerWord == 2) {
#pragma unroll
    for (Packed<T, N>& vector : vectors) {
#pragma unroll
      for (int w = 0; w < Packed<T, N>::kWords; ++w) asm volatile("" : "+r"(vector.words[w]));
    }
  }
#endif
}

}  // namespace ws::row
#endif
