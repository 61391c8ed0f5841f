// Turns that are loaded ahead come in their order, each with what was loaded for it, and none that
// is beyond the end.
#include "warpsmith/thread/ahead.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

template <int kAhead>
struct AheadKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    int64_t* seen;
    int64_t end;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    if (thread_index() != 0) return;
    int64_t count = 0;
    thread::each_ahead<kAhead>(
        1, a.end, 3, [](int64_t i) { return 10 * i; },
        [&](int64_t loaded, int64_t i) { thread::store(a.seen + count++, 100 * loaded + i); });
  }
};

template <int kAhead>
void expect_in_order() {
  for (int64_t end = 0; end < 30; ++end) {
    std::vector<int64_t> expected;
    for (int64_t i = 1; i < end; i += 3) expected.push_back(1001 * i);
    expected.push_back(-1);
    test::Buffer<int64_t> seen(std::vector<int64_t>(expected.size(), -1));
    test::run<AheadKernel<kAhead>>({.threads = 32}, {seen.data(), end});
    EXPECT_EQ(std::vector<int64_t>(seen.begin(), seen.end()), expected) << kAhead << ", " << end;
  }
}

TEST(Ahead, TurnsComeInOrder) {
  expect_in_order<1>();
  expect_in_order<3>();
  expect_in_order<4>();
}

}  // namespace
}  // namespace ws
