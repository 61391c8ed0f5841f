// Philox4x32, a generator of random numbers that is a function: key and counter give four words,
// and nothing is kept from one call to the next, so that any thread has any number (Salmon, Moraes,
// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <cstdint>

#include "warpsmith/types.hpp"

namespace ws::thread {

// The keys of all rounds, which depend on the seed alone: prepared once, by the host, they are
// constants of a launch and cost a kernel nothing. A round is two wide products and two words of
// three-way exclusive or: a call of seven rounds some 26 instructions, 6.5 for each of its four
// words.
template <int kRounds>
class PhiloxOf {
 public:
  PhiloxOf() = default;
  __host__ __device__ explicit PhiloxOf(uint64_t seed) {
    auto low = static_cast<uint32_t>(seed);
    auto high = static_cast<uint32_t>(seed >> 32);
    for (auto& key : keys_) {
      key[0] = low;
      key[1] = high;
      low += 0x9E3779B9U;   // the golden ratio
      high += 0xBB67AE85U;  // the square root of 3, less 1
    }
  }

  // The words of the counter high * 2^64 + low.
  __host__ __device__ __forceinline__ Vec<uint32_t, 4> operator()(uint64_t low,
                                                                  uint64_t high = 0) const {
    Vec<uint32_t, 4> words = {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                               static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)}};
#pragma unroll
    for (const auto& key : keys_) {
      const uint64_t first = uint64_t{0xD2511F53U} * words[0];
      const uint64_t second = uint64_t{0xCD9E8D57U} * words[2];
      words = {
          {static_cast<uint32_t>(second >> 32) ^ words[1] ^ key[0], static_cast<uint32_t>(second),
           static_cast<uint32_t>(first >> 32) ^ words[3] ^ key[1], static_cast<uint32_t>(first)}};
    }
    return words;
  }

 private:
  uint32_t keys_[kRounds][2];
};

// Seven rounds are the fewest that pass every test of BigCrush, by the paper, whose ten have a
// margin; wide products are what they cost, at half the rate of others.
using Philox = PhiloxOf<7>;

}  // namespace ws::thread
