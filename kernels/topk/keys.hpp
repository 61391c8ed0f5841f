// Keys: elements as integers that stand in the order of the output, so that one comparison of
// integers does for NaN, zeros, ties and direction alike.
#pragma once

#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::topk {

// What an element is worth, larger first, in 32 bits; of 16-bit floats in the upper 16. No element
// of a float type is worth 0: that is free to stand for none.
template <class T>
struct Worth {
  static constexpr bool kIsInteger = std::is_same_v<T, int32_t>;
  static constexpr uint32_t kUnit = sizeof(T) == 2 ? 0x10000 : 1;
  static constexpr uint32_t kInfinity = std::is_same_v<T, half> ? 0x7C000000 : 0x7F800000;
  static constexpr uint32_t kNan = 2 * kInfinity + 2 * kUnit;  // the worth of each
  static constexpr uint32_t kMask = sizeof(T) == 2 ? 0xFFFF0000 : 0xFFFFFFFF;

  // All of an order: what is xored with a worth to turn it round.
  __host__ __device__ static constexpr uint32_t flip(bool largest) { return largest ? 0 : kMask; }

  // Sign and magnitude as a number of two's complement, on which 0 and -0 are one, moved so that
  // -inf is the least. What lies beyond the infinities, a NaN of either sign, has wrapped around to
  // the top.
  __device__ __forceinline__ static uint32_t of(T x, uint32_t flip) {
    if constexpr (kIsInteger) {
      return (static_cast<uint32_t>(x) ^ 0x80000000U) ^ flip;
    } else {
      uint32_t word = 0;
      if constexpr (sizeof(T) == 2) {
        word = static_cast<uint32_t>(x.bits) << 16;
      } else {
        word = std::bit_cast<uint32_t>(x);
      }
      const uint32_t sign = 0U - (word >> 31);
      const uint32_t worth = ((word & 0x7FFFFFFFU) ^ sign) - sign + (kInfinity + kUnit);
      return (worth < kNan ? worth : kNan) ^ flip;
    }
  }

  // The element again. Which zero it was and which NaN a worth does not say: `there` does.
  __device__ __forceinline__ static T back(uint32_t worth, uint32_t flip, const T* there) {
    worth ^= flip;
    if constexpr (kIsInteger) {
      return static_cast<T>(worth ^ 0x80000000U);
    } else {
      const uint32_t number = worth - (kInfinity + kUnit);
      if (worth == kNan || number == 0) return thread::load(there);
      const bool negative = worth < kInfinity + kUnit;
      const uint32_t word = negative ? 0x80000000U | (0U - number) : number;
      if constexpr (sizeof(T) == 2) {
        T x;
        x.bits = static_cast<uint16_t>(word >> 16);
        return x;
      } else {
        return std::bit_cast<T>(word);
      }
    }
  }
};

// A worth and a place: of equal elements the first has the larger key, and no two keys are equal.
// 0 stands for no element. In 64 bits, of rows of up to 2^32 - 2 elements; in 32 bits, of 16-bit
// floats in rows of up to 2^16.
template <class Word>
struct Key {
  static constexpr bool kIsWide = sizeof(Word) == 8;
  static constexpr uint32_t kMostPlaces = 0xFFFFFFFE;  // so that a key may be increased

  __device__ __forceinline__ static Word of(uint32_t worth, int64_t place) {
    if constexpr (kIsWide) {
      return Word{worth} << 32 | (kMostPlaces - static_cast<uint32_t>(place));
    } else {
      return worth | (0xFFFFU - static_cast<uint32_t>(place));
    }
  }
  __device__ __forceinline__ static int64_t place(Word key) {
    if constexpr (kIsWide) {
      return kMostPlaces - static_cast<uint32_t>(key);
    } else {
      return 0xFFFFU - (key & 0xFFFFU);
    }
  }
  __device__ __forceinline__ static uint32_t worth(Word key) {
    if constexpr (kIsWide) {
      return static_cast<uint32_t>(key >> 32);
    } else {
      return key & 0xFFFF0000U;
    }
  }
};

}  // namespace ws::topk
#endif
