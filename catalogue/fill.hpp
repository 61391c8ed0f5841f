// Random inputs: what Operation::fill is written with. Every value is a function of (seed, index)
// alone, so that filling runs on all cores and gives the same data on every machine.
#pragma once

#include <cstdint>
#include <functional>

#include "catalogue/problem.hpp"

namespace ws {

// 64 random bits.
constexpr uint64_t random_bits(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + index;  // the finaliser of splitmix64, twice
  for (int round = 0; round < 2; ++round) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
  }
  return x;
}
constexpr double random_uniform(uint64_t seed, uint64_t index) {  // [0, 1)
  return static_cast<double>(random_bits(seed, index) >> 11) * 0x1p-53;
}
double random_normal(uint64_t seed, uint64_t index);  // mean 0, standard deviation 1

// Writes an element of a tensor on the host by its row-major logical index, rounded to the dtype.
void set_element(const Tensor& tensor, int64_t index, double value);

// Sets every element of a tensor on the host to value(logical index), on all cores.
void fill_with(const Tensor& tensor, const std::function<double(int64_t)>& value);
void fill_normal(const Tensor& tensor, uint64_t seed);
// As Operation::fill: standard normal floats; integers from -100 to 100 (u8 from 0); bools alike.
void fill_normal_input(const Problem& problem, int index, uint64_t seed);

// Calls work(first, last) for pieces of [0, count) on all cores, in the caller's thread where the
// whole is smaller than two pieces of `grain`. The first exception comes back to the caller.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& work);

}  // namespace ws
