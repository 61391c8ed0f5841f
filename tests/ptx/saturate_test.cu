// Numbers brought into [0, 1]: what lies outside, infinities and NaN.
#include "warpsmith/ptx/saturate.hpp"

#include <cmath>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

struct SaturateKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* x;
    float* y;
    int count;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int i = thread_index();
    if (i < a.count) thread::store(a.y + i, ptx::fma_sat_f32(thread::load(a.x + i), 2, -1));
  }
};

TEST(Saturate, NumbersAreBroughtInside) {
  const std::vector<float> x = {0, 0.5F, 0.75F, 1, 2, INFINITY, -INFINITY, NAN, 3e38F};
  const std::vector<float> expected = {0, 0, 0.5F, 1, 1, 1, 0, 0, 1};
  test::Buffer<float> in(x);
  test::Buffer<float> out(x.size());
  test::run<SaturateKernel>({.threads = 32}, {in.data(), out.data(), static_cast<int>(x.size())});
  EXPECT_EQ(std::vector<float>(out.begin(), out.end()), expected);
}

}  // namespace
}  // namespace ws
