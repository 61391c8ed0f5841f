#include "warpsmith/warp/moments.hpp"

#include <cmath>
#include <cstring>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws {
namespace {

using thread::Moments;

// Lane i holds x[per_lane * i ...], of which only the first `count` of all are there; or lane 31 -
// i does. By merging lanes at once, by merging pairs, by one lane alone, and, of lanes in reverse,
// by merging at once where any may hold nothing.
struct MomentsOfWarp {
  static constexpr int kThreads = 32;
  static constexpr int kPerLane = 4;
  struct Arguments {
    const float* x;
    int count;
    float* out;  // [4 ways, 32 lanes, 3]
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    Moments mine = Moments::none();
    Moments whole = Moments::none();
    for (int i = 0; i < a.count; ++i) {
      const float x = thread::load(a.x + i);
      whole = thread::add(whole, x);
      if (i / kPerLane == thread_index()) mine = thread::add(mine, x);
    }
    store(a, 0, warp::all_reduce(mine, warp::MergeMoments{}));
    store(a, 1, warp::all_reduce(mine, [](const Moments& p, const Moments& q) {
            return thread::merge(p, q);
          }));
    store(a, 2, whole);
    const Moments reversed = warp::shuffle(mine, kThreads - 1 - thread_index());
    store(a, 3, warp::all_reduce(reversed, warp::MergeMomentsOfSome{}));
  }
  __device__ static void store(const Arguments& a, int way, const Moments& m) {
    float* out = a.out + (way * kThreads + thread_index()) * 3;
    thread::store(out, m.count);
    thread::store(out + 1, m.mean);
    thread::store(out + 2, m.squares);
  }
};

void check(double offset, double scale, int count) {
  SCOPED_TRACE(testing::Message() << offset << " + " << scale << " x, " << count << " numbers");
  test::Buffer<float> x(128);
  test::Buffer<float> out(size_t{4} * 32 * 3);
  double mean = 0;
  for (int i = 0; i < 128; ++i) {
    x[static_cast<size_t>(i)] = static_cast<float>(offset + scale * ((i * 37 % 101) - 50));
    if (i < count) mean += x[static_cast<size_t>(i)];
  }
  if (count > 0) mean /= count;
  double squares = 0;
  for (int i = 0; i < count; ++i) squares += std::pow(x[static_cast<size_t>(i)] - mean, 2);
  test::run<MomentsOfWarp>({.blocks = 1, .threads = 32}, {x.data(), count, out.data()});
  for (size_t way = 0; way < 4; ++way) {
    const float* first = out.begin() + way * 32 * 3;
    EXPECT_EQ(first[0], static_cast<float>(count)) << way;
    EXPECT_NEAR(first[1], mean, 1e-6 * (std::abs(mean) + scale)) << way;
    EXPECT_NEAR(first[2], squares, 2e-5 * squares + 1e-30) << way;
    for (size_t lane = 1; lane < 32; ++lane) {
      EXPECT_EQ(std::memcmp(first, first + lane * 3, 3 * sizeof(float)), 0) << way << " " << lane;
    }
  }
}

TEST(Moments, OfAWarpInFourWays) {
  test::in_every_order([] {
    check(0, 1, 128);
    check(1000, 0.5, 128);  // a sum of squares would lose a third of its digits
    check(-3e3, 0.25, 128);
    check(0, 1e-10, 128);
  });
}
TEST(Moments, LanesWithoutNumbersAddNothing) {
  check(1000, 1, 100);
  check(5, 1, 3);
  check(5, 1, 1);
  check(5, 1, 0);
}
TEST(Moments, OfEqualNumbersHaveNoSquares) { check(7, 0, 128); }

}  // namespace
}  // namespace ws
