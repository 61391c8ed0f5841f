// Bits and bytes of words.
#include "warpsmith/ptx/bits.hpp"

#include "tests/run.hpp"

namespace ws {
namespace {

struct Bits {
  static constexpr int kThreads = 32;
  struct Arguments {
    const uint32_t* selectors;
    uint32_t* permuted;
    uint32_t* shifted;
    int* lowest;
    int* count;
    int* above;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int lane = lane_index();
    a.permuted[lane] = ptx::permute_bytes(0x33221100, 0x77665544, a.selectors[lane]);
    a.shifted[lane] = ptx::funnel_shift(0x33221100, 0x77665544, static_cast<uint32_t>(lane));
    a.lowest[lane] = ptx::lowest_bit(0xFFFFFFFFU << lane);
    a.count[lane] = ptx::count_bits(0xFFFFFFFFU << lane);
    a.above[lane] = ptx::leading_zeros(0xFFFFFFFFU >> lane >> 1);
  }
};

TEST(Bits, OfEachPlace) {
  test::Buffer<uint32_t> selectors(32);
  test::Buffer<uint32_t> permuted(32);
  test::Buffer<uint32_t> shifted(32);
  test::Buffer<int> lowest(32);
  test::Buffer<int> count(32);
  test::Buffer<int> above(32);
  for (uint32_t i = 0; i < 32; ++i) selectors[i] = i % 8 << (i / 8 * 4);
  selectors[0] = 0x6420;
  selectors[9] = 0x7531;
  selectors[18] = 0x0123;
  test::run<Bits>({.threads = 32}, {selectors.data(), permuted.data(), shifted.data(),
                                    lowest.data(), count.data(), above.data()});
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t expected = 0;
    for (uint32_t byte = 0; byte < 4; ++byte) {
      expected |= (selectors[i] >> (4 * byte) & 0xF) * 0x11 << (8 * byte);
    }
    EXPECT_EQ(permuted[i], expected) << i;
    EXPECT_EQ(shifted[i], static_cast<uint32_t>(0x7766554433221100 >> i));
    EXPECT_EQ(lowest[i], static_cast<int>(i));
    EXPECT_EQ(count[i], 32 - static_cast<int>(i));
    EXPECT_EQ(above[i], static_cast<int>(i) + 1);
  }
}

}  // namespace
}  // namespace ws
