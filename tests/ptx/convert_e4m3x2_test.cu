#include "warpsmith/ptx/convert_e4m3x2.hpp"

#include <cmath>

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Pairs of e4m3 as pairs of f16.
struct Widen {
  static constexpr int kThreads = 256;
  struct Arguments {
    const uint16_t* pairs;
    uint32_t* wide;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& g) const {
    const int i = thread_index();
    thread::store(g.wide + i, ptx::cvt_rn_f16x2_e4m3x2(thread::load(g.pairs + i)));
  }
};

TEST(ConvertE4m3x2, EveryE4m3IsAHalf) {
  test::Buffer<e4m3> pairs(2 * Widen::kThreads);
  test::Buffer<half> wide(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].bits = static_cast<uint8_t>(i % 2 == 0 ? i / 2 : 255 - i / 2);
  }
  test::run<Widen>({.threads = Widen::kThreads}, {reinterpret_cast<uint16_t*>(pairs.data()),
                                                  reinterpret_cast<uint32_t*>(wide.data())});
  for (size_t i = 0; i < pairs.size(); ++i) {
    const float number = to_float(pairs[i]);
    EXPECT_EQ(wide[i].bits, std::isnan(number) ? 0x7FFF : half(number).bits) << i;
  }
}

}  // namespace
}  // namespace ws
