#include "warpsmith/warp/match.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

struct Matches {
  static constexpr int kThreads = 32;
  struct Arguments {
    const uint32_t* values;
    uint32_t* peers;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    thread::store(a.peers + thread_index(),
                  warp::match<3>(thread::load(a.values + thread_index())));
  }
};

TEST(Match, OfTheLowestBits) {
  for (const uint32_t step : {0U, 1U, 3U, 8U}) {
    test::in_every_order([=] {
      test::Buffer<uint32_t> values(32);
      test::Buffer<uint32_t> peers(32);
      for (uint32_t lane = 0; lane < 32; ++lane) values[lane] = lane * step;
      test::run<Matches>({.threads = 32}, {values.data(), peers.data()});
      for (uint32_t lane = 0; lane < 32; ++lane) {
        uint32_t expected = 0;
        for (uint32_t other = 0; other < 32; ++other) {
          if (values[other] % 8 == values[lane] % 8) expected |= 1U << other;
        }
        EXPECT_EQ(peers[lane], expected) << step << " " << lane;
      }
    });
  }
}

}  // namespace
}  // namespace ws
