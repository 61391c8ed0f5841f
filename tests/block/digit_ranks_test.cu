#include "warpsmith/block/digit_ranks.hpp"

#include <random>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

template <int kThreads_, int kKeys>
struct RankKeys {
  static constexpr int kThreads = kThreads_;
  using Order = block::DigitRanks<kThreads, kKeys>;
  struct Arguments {
    const uint32_t* keys;
    uint32_t* places;
    uint32_t* before;  // of each digit
    int shift;
  };
  struct SharedStorage {
    typename Order::Storage order;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    typename Order::Keys keys;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      keys[j] = thread::load(a.keys + Order::first() + j * kWarpSize);
    }
    Order order(shared.order);
    const typename Order::Ranks ranks = order.count(keys, a.shift);
    const typename Order::Keys places = order.places(ranks, keys, a.shift);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      thread::store(a.places + Order::first() + j * kWarpSize, places[j]);
    }
    for (int digit = thread_index(); digit < Order::kDigits; digit += kThreads) {
      thread::store(a.before + digit, order.before(static_cast<uint32_t>(digit)));
    }
  }
};

template <int kThreads, int kKeys>
void ranks(int shift, uint32_t below) {
  constexpr size_t kCount = size_t{kThreads} * kKeys;
  std::mt19937 engine(kCount);
  test::Buffer<uint32_t> keys(kCount);
  for (uint32_t& key : keys) key = engine() % below << shift | engine() % (1U << shift);
  test::in_every_order([&] {
    test::Buffer<uint32_t> places(kCount);
    test::Buffer<uint32_t> before(256);
    test::run<RankKeys<kThreads, kKeys>>({.threads = kThreads},
                                         {keys.data(), places.data(), before.data(), shift});
    uint32_t next = 0;
    for (uint32_t digit = 0; digit < 256; ++digit) {
      EXPECT_EQ(before[digit], next) << digit;
      for (size_t i = 0; i < kCount; ++i) {
        if ((keys[i] >> shift) % 256 != digit) continue;
        EXPECT_EQ(places[i], next++) << i;
      }
    }
  });
}

TEST(DigitRanks, OfABlock) {
  ranks<256, 2>(0, 1U << 31);
  ranks<512, 6>(24, 256);
}

TEST(DigitRanks, OfFewDigits) {
  ranks<256, 4>(8, 1);
  ranks<256, 4>(16, 3);
}

}  // namespace
}  // namespace ws
