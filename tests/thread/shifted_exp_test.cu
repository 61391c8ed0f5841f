// exp(x - shift) by a multiply-add, beside double precision: shifts of all sizes, on both sides of
// the one from which it takes a difference; and by a difference, exactly 1 at the shift.
#include "warpsmith/thread/shifted_exp.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class Exp>
struct ShiftedExpKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* x;
    float* result;
    float shift;
    int count;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int i = thread_index();
    if (i >= a.count) return;
    const Exp exp(a.shift);
    thread::store(a.result + i, exp(thread::load(a.x + i)) * exp.factor());
  }
};

template <class Exp>
void expect_exponentials(float shift, float at_shift) {
  const std::vector<float> inputs = {
      shift, std::nextafter(shift, -kInf), shift - 0.3F, shift - 10, shift - 60, shift - 200,
      -kInf};
  test::Buffer<float> x(inputs);
  test::Buffer<float> result(std::vector<float>(inputs.size(), -1));
  test::run<ShiftedExpKernel<Exp>>(
      {.threads = 32}, {x.data(), result.data(), shift, static_cast<int>(inputs.size())});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double expected = std::exp(static_cast<double>(inputs[i]) - static_cast<double>(shift));
    // From 2^30 on a power of two, at most 2^-64, stands for what is next to nothing.
    EXPECT_NEAR(result.data()[i], expected, 2e-5 * expected + 1e-19) << shift << ", " << inputs[i];
  }
  EXPECT_NEAR(result.data()[0], 1, at_shift) << shift;
}

TEST(ShiftedExp, IsTheExponentialOfTheDifference) {
  for (const float size :
       {0.0F, 0.3F, 20.0F, 1e3F, 1e4F, 1e7F, 0x1p30F - 64, 0x1p30F, 1e30F, 3e38F}) {
    for (const float shift : {size, -size}) {
      expect_exponentials<thread::ShiftedExp>(shift, 1e-6F);
      expect_exponentials<thread::DifferenceExp>(shift, 0);
    }
  }
}

TEST(ShiftedExp, WhatIsNoNumberStaysNone) {
  for (const float shift : {kInf, std::numeric_limits<float>::quiet_NaN()}) {
    test::Buffer<float> x(std::vector<float>{shift});
    test::Buffer<float> result(std::vector<float>{0});
    test::run<ShiftedExpKernel<thread::ShiftedExp>>({.threads = 32},
                                                    {x.data(), result.data(), shift, 1});
    EXPECT_TRUE(std::isnan(result.data()[0])) << shift;
  }
}

}  // namespace
}  // namespace ws
