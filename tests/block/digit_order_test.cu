#include "warpsmith/block/digit_order.hpp"

#include <algorithm>
#include <random>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

template <int kThreads_, int kKeys>
struct PlaceKeys {
  static constexpr int kThreads = kThreads_;
  using Order = block::DigitOrder<kThreads, kKeys>;
  struct Arguments {
    const uint32_t* keys;
    uint32_t* places;
    uint32_t* before;  // of each digit
    int shift;
    int bits;
  };
  struct SharedStorage {
    typename Order::Storage order;
    typename Order::WarpSums::Storage sums;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    typename Order::Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) keys[j] = thread::load(a.keys + thread_index() * kKeys + j);
    Order order(shared.order, shared.sums);
    const typename Order::Keys places = order(keys, a.shift, a.bits);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) thread::store(a.places + thread_index() * kKeys + j, places[j]);
    for (int digit = thread_index(); digit < 1 << a.bits; digit += kThreads) {
      thread::store(a.before + digit, order.before(static_cast<uint32_t>(digit), a.bits));
    }
  }
};

template <int kThreads, int kKeys>
void orders(int shift, int bits, uint32_t below) {
  constexpr size_t kCount = size_t{kThreads} * kKeys;
  const uint32_t digits = 1U << bits;
  test::Buffer<uint32_t> keys(kCount);
  test::Buffer<uint32_t> places(kCount);
  test::Buffer<uint32_t> before(digits);
  std::mt19937 engine(kCount);
  for (uint32_t& key : keys) key = engine() % below << shift | engine() % (1U << shift);
  test::run<PlaceKeys<kThreads, kKeys>>({.threads = kThreads},
                                        {keys.data(), places.data(), before.data(), shift, bits});
  uint32_t next = 0;
  for (uint32_t digit = 0; digit < digits; ++digit) {
    EXPECT_EQ(before[digit], next) << digit;
    for (size_t i = 0; i < kCount; ++i) {
      if ((keys[i] >> shift) % digits != digit) continue;
      EXPECT_EQ(places[i], next++) << i;
    }
  }
}

TEST(DigitOrder, OfAWarp) {
  orders<32, 1>(0, 5, 32);
  orders<32, 16>(16, 5, 1000);
  orders<32, 3>(26, 6, 64);
}

TEST(DigitOrder, OfABlock) {
  orders<64, 4>(3, 6, 1U << 20);
  orders<256, 2>(21, 5, 2000);
}

TEST(DigitOrder, OfOneDigit) {
  orders<32, 32>(8, 5, 1);
  orders<128, 8>(8, 6, 1);
}

}  // namespace
}  // namespace ws
