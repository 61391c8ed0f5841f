#include "warpsmith/thread/divide.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ws::thread {
namespace {

constexpr uint32_t kLargest = (1u << 31) - 1;

TEST(Divider, EdgesAndRandomNumbers) {
  std::mt19937 bits(1);
  std::vector<uint32_t> divisors = {1,
                                    2,
                                    3,
                                    5,
                                    7,
                                    255,
                                    256,
                                    257,
                                    641,
                                    65535,
                                    65536,
                                    65537,
                                    (1u << 30) - 1,
                                    1u << 30,
                                    (1u << 30) + 1,
                                    kLargest - 1,
                                    kLargest};
  for (int i = 0; i < 500; ++i) divisors.push_back((bits() >> (1 + i % 30)) + 1);
  for (const uint32_t d : divisors) {
    const Divider divider(d);
    std::vector<uint32_t> numbers = {0, 1, d - 1, d, kLargest, kLargest - 1, kLargest / d * d};
    if (d <= kLargest / 2) numbers.insert(numbers.end(), {2 * d - 1, 2 * d});
    if (kLargest / d * d != 0) numbers.push_back(kLargest / d * d - 1);
    for (int i = 0; i < 200; ++i) numbers.push_back(bits() >> (1 + i % 31));
    for (const uint32_t n : numbers) ASSERT_EQ(divider.quotient(n), n / d) << n << " / " << d;
  }
}

TEST(Divider, RefusesWhatItCannotDivideBy) {
  EXPECT_THROW(Divider(0), InvalidArgument);
  EXPECT_THROW(Divider(int64_t{1} << 31), InvalidArgument);
}

}  // namespace
}  // namespace ws::thread
