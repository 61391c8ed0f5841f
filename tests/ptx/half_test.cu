#include "warpsmith/ptx/half.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "tests/run.hpp"
#include "warpsmith/ptx/mul_bf16x2.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// d[i] = a[i] * b[i] + c[i], two f16 at a time.
struct FmaPairs {
  static constexpr int kThreads = 128;
  struct Arguments {
    const uint32_t* a;
    const uint32_t* b;
    const uint32_t* c;
    uint32_t* d;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& g) const {
    const int64_t i = block_index() * kThreads + thread_index();
    thread::store(g.d + i, ptx::fma_rn_f16x2(thread::load(g.a + i), thread::load(g.b + i),
                                             thread::load(g.c + i)));
  }
};

// The nearest f16 to a number that a double holds exactly, of two the even one.
double rounded(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double unit = std::exp2(std::max(std::ilogb(x), -14) - 10);
  const double result = std::nearbyint(x / unit) * unit;
  return std::abs(result) > 65504 ? std::copysign(INFINITY, x) : result;
}

TEST(Half, FmaRoundsOnce) {
  constexpr int kPairs = 4 * FmaPairs::kThreads;
  test::Buffer<half> a(2 * kPairs);
  test::Buffer<half> b(2 * kPairs);
  test::Buffer<half> c(2 * kPairs);
  test::Buffer<half> d(2 * kPairs);
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < a.size(); ++i) {
    // Products and sums that a double holds exactly; sums that cancel, too.
    a[i] = half(normal(engine));
    b[i] = half(normal(engine));
    c[i] = half(i % 3 == 0 ? -to_float(a[i]) * to_float(b[i]) : normal(engine) * 8);
  }
  const auto set = [&](size_t i, double x, double y, double z) {
    a[i] = half(static_cast<float>(x));
    b[i] = half(static_cast<float>(y));
    c[i] = half(static_cast<float>(z));
  };
  // Just below, and just above, the middle of two f16: as f32 the sum is the middle.
  set(0, 1 + 0x1p-10, (1 - 0x1p-10) * 0x1p-11, 1 + 0x1p-10);
  set(1, -(1 + 0x1p-10), (1 - 0x1p-10) * 0x1p-11, 1);
  set(2, 1 + 0x1p-10, -(1 - 0x1p-10) * 0x1p-11, -(1 + 0x1p-10));
  set(3, 0x1p-24, 0x1p-1, 0x1p-24);  // subnormal, a tie
  set(4, 300, 300, 0);
  set(5, 300, -300, 65504);
  set(6, 300, 300, -INFINITY);
  test::run<FmaPairs>(
      {.blocks = 4, .threads = FmaPairs::kThreads},
      {reinterpret_cast<const uint32_t*>(a.data()), reinterpret_cast<const uint32_t*>(b.data()),
       reinterpret_cast<const uint32_t*>(c.data()), reinterpret_cast<uint32_t*>(d.data())});
  for (size_t i = 0; i < d.size(); ++i) {
    const double exact = double{to_float(a[i])} * to_float(b[i]) + to_float(c[i]);
    EXPECT_EQ(to_float(d[i]), rounded(exact))
        << i << ": " << to_float(a[i]) << " * " << to_float(b[i]) << " + " << to_float(c[i]);
  }
}

// c[i] = a[i] * b[i], two bf16 at a time.
struct MulPairs {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    const uint32_t* a;
    const uint32_t* b;
    uint32_t* c;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& g) const {
    const int i = thread_index();
    thread::store(g.c + i, ptx::mul_rn_bf16x2(thread::load(g.a + i), thread::load(g.b + i)));
  }
};

TEST(Half, MulOfPairsRoundsOnce) {
  constexpr size_t kCount = 2 * MulPairs::kThreads;
  test::Buffer<bf16> a(kCount);
  test::Buffer<bf16> b(kCount);
  test::Buffer<bf16> c(kCount);
  std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = from_float<bf16>(normal(engine));
    b[i] = from_float<bf16>(normal(engine));
  }
  a[0] = from_float<bf16>(0.0F);
  b[0] = from_float<bf16>(INFINITY);
  a[1] = from_float<bf16>(0x1.01p0F);
  b[1] = from_float<bf16>(0x1.80p0F);  // a tie
  a[2] = from_float<bf16>(0x1p127F);
  b[2] = from_float<bf16>(-2.0F);
  a[3] = from_float<bf16>(-0.0F);
  test::run<MulPairs>({.threads = MulPairs::kThreads}, {reinterpret_cast<const uint32_t*>(a.data()),
                                                        reinterpret_cast<const uint32_t*>(b.data()),
                                                        reinterpret_cast<uint32_t*>(c.data())});
  EXPECT_TRUE(std::isnan(to_float(c[0])));
  for (size_t i = 1; i < kCount; ++i) {
    const float product = to_float(a[i]) * to_float(b[i]);
    EXPECT_EQ(to_float(c[i]), to_float(from_float<bf16>(product))) << i;
  }
}

// The larger and the smaller of two pairs.
template <class T>
struct Extremes {
  static constexpr int kThreads = 128;
  struct Arguments {
    const uint32_t* a;
    const uint32_t* b;
    uint32_t* larger;
    uint32_t* smaller;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& g) const {
    const int i = thread_index();
    const uint32_t a = thread::load(g.a + i);
    const uint32_t b = thread::load(g.b + i);
    thread::store(g.larger + i, ptx::max_nan_x2<T>(a, b));
    thread::store(g.smaller + i, ptx::min_x2<T>(a, b));
  }
};

template <class T>
void extremes_of() {
  constexpr size_t kCount = 2 * Extremes<T>::kThreads;
  test::Buffer<T> a(kCount);
  test::Buffer<T> b(kCount);
  test::Buffer<T> larger(kCount);
  test::Buffer<T> smaller(kCount);
  std::mt19937 engine(5);
  std::normal_distribution<float> normal;
  const std::array special = {0.0F, -0.0F, NAN, -NAN, INFINITY, -INFINITY, 1.0F, -1.0F};
  for (size_t i = 0; i < kCount; ++i) {
    const size_t pair = i % 64;  // of all special numbers
    a[i] = from_float<T>(i < 128 ? special[pair / 8] : normal(engine));
    b[i] = from_float<T>(i < 128 ? special[pair % 8] : normal(engine));
  }
  const auto words = [](test::Buffer<T>& of) { return reinterpret_cast<uint32_t*>(of.data()); };
  test::run<Extremes<T>>({.threads = Extremes<T>::kThreads},
                         {words(a), words(b), words(larger), words(smaller)});
  for (size_t i = 0; i < kCount; ++i) {
    const float x = to_float(a[i]);
    const float y = to_float(b[i]);
    const float high = to_float(larger[i]);
    const float low = to_float(smaller[i]);
    if (std::isnan(x) || std::isnan(y)) {
      EXPECT_TRUE(std::isnan(high)) << i;
      const float number = std::isnan(x) ? y : x;
      EXPECT_TRUE(std::isnan(number) ? std::isnan(low) : low == number) << i;
    } else {
      EXPECT_EQ(high, std::max(x, y)) << i;
      EXPECT_EQ(low, std::min(x, y)) << i;
    }
  }
}

TEST(Half, ExtremesOfPairs) {
  extremes_of<half>();
  extremes_of<bf16>();
}

}  // namespace
}  // namespace ws
