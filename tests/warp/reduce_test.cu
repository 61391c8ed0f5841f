#include "warpsmith/warp/reduce.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

struct Pair {
  float low;
  float high;
};

// Each group of kLanes lanes finds its smallest and largest value.
template <int kLanes>
struct LowHigh {
  static constexpr int kThreads = 64;
  struct Arguments {
    const float* x;
    float* low;
    float* high;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const float x = thread::load(a.x + thread_index());
    const Pair pair = warp::all_reduce<kLanes>(Pair{x, x}, [](const Pair& p, const Pair& q) {
      return Pair{fminf(p.low, q.low), fmaxf(p.high, q.high)};
    });
    thread::store(a.low + thread_index(), pair.low);
    thread::store(a.high + thread_index(), pair.high);
  }
};

template <int kLanes>
void check_groups() {
  SCOPED_TRACE(kLanes);
  test::in_every_order([] {
    test::Buffer<float> x(64);
    test::Buffer<float> low(64);
    test::Buffer<float> high(64);
    for (size_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i * 37 % 64);
    test::run<LowHigh<kLanes>>({.blocks = 1, .threads = 64}, {x.data(), low.data(), high.data()});
    for (size_t i = 0; i < 64; ++i) {
      const float* first = x.begin() + i / kLanes * kLanes;
      EXPECT_EQ(low[i], *std::min_element(first, first + kLanes)) << i;
      EXPECT_EQ(high[i], *std::max_element(first, first + kLanes)) << i;
    }
  });
}

TEST(WarpAllReduce, GivesEachGroupItsOwnResult) {
  check_groups<1>();
  check_groups<2>();
  check_groups<8>();
  check_groups<16>();
  check_groups<32>();
}

struct MaxSumOfWarp {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* x;
    float* max;
    float* sum;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    using thread::MaxSum;
    const MaxSum mine = thread::add(MaxSum::none(), thread::load(a.x + thread_index()));
    const MaxSum all = warp::all_reduce(
        mine, [](const MaxSum& p, const MaxSum& q) { return thread::merge(p, q); });
    thread::store(a.max + thread_index(), all.max);
    thread::store(a.sum + thread_index(), all.sum);
  }
};

class MaxSumTest : public testing::Test {
 protected:
  void reduce() {
    test::run<MaxSumOfWarp>({.blocks = 1, .threads = 32}, {x.data(), max.data(), sum.data()});
  }
  test::Buffer<float> x{32};
  test::Buffer<float> max{32};
  test::Buffer<float> sum{32};
};

TEST_F(MaxSumTest, AllLanesGetTheSameBits) {
  test::in_every_order([&] {
    double expected = 0;
    for (size_t i = 0; i < 32; ++i) {
      x[i] = 0.37F * static_cast<float>(i * 11 % 32);
      expected += std::exp(static_cast<double>(x[i]) - 0.37 * 31);
    }
    reduce();
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(std::memcmp(&sum[i], &sum[0], 4), 0) << i;
      EXPECT_EQ(max[i], 0.37F * 31);
    }
    EXPECT_NEAR(sum[0], expected, 1e-5);
  });
}

TEST_F(MaxSumTest, MaskedElementsAddNothing) {
  for (float& v : x) v = -thread::kInfinity;
  x[5] = -1000;
  reduce();
  EXPECT_EQ(max[0], -1000);
  EXPECT_EQ(sum[0], 1);
}

TEST_F(MaxSumTest, AllMaskedIsNone) {
  for (float& v : x) v = -thread::kInfinity;
  reduce();
  EXPECT_EQ(max[0], -thread::kInfinity);
  EXPECT_EQ(sum[0], 0);
}

TEST_F(MaxSumTest, NanAndInfinityMakeTheSumNan) {
  for (const float bad : {std::nanf(""), thread::kInfinity}) {
    for (float& v : x) v = 1;
    x[31] = bad;
    reduce();
    for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(sum[i])) << bad << " " << i;
  }
}

TEST_F(MaxSumTest, HugeMagnitudesDoNotOverflow) {
  for (size_t i = 0; i < 32; ++i) x[i] = i % 2 == 0 ? 3e38F : -3e38F;
  reduce();
  EXPECT_EQ(sum[0], 16);
}

}  // namespace
}  // namespace ws
