// Counts that become sums of those before them, by a warp.
#include "warpsmith/thread/running_sums.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/warp/scan.hpp"

namespace ws {
namespace {

struct RunningSums {
  static constexpr int kThreads = kWarpSize;
  struct Arguments {
    uint32_t* counts;
    uint32_t* total;
    int64_t count;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const uint32_t total =
        thread::running_sums<kWarpSize>(a.counts, a.count, lane_index(), [](uint32_t sum) {
          const uint32_t up_to =
              warp::inclusive_scan(sum, [](uint32_t x, uint32_t y) { return x + y; });
          return thread::SumsOfTurn{up_to - sum, warp::shuffle(up_to, kWarpSize - 1)};
        });
    if (lane_index() == 0) thread::store(a.total, total);
  }
};

TEST(RunningSums, OfWholeTurnsAndParts) {
  for (const size_t count : {0, 1, 127, 128, 129, 300}) {
    std::vector<uint32_t> given(count);
    for (size_t i = 0; i < count; ++i) given[i] = static_cast<uint32_t>(i * 7 % 5);
    std::vector<uint32_t> sums(count);
    std::exclusive_scan(given.begin(), given.end(), sums.begin(), 0U);
    test::Buffer<uint32_t> counts(std::max<size_t>(count, 1));
    std::ranges::copy(given, counts.begin());
    test::Buffer<uint32_t> total(1);
    test::run<RunningSums>({.threads = kWarpSize},
                           {counts.data(), total.data(), static_cast<int64_t>(count)});
    EXPECT_EQ(total[0], std::accumulate(given.begin(), given.end(), 0U)) << count;
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(counts[i], sums[i]) << i << " of " << count;
  }
}

}  // namespace
}  // namespace ws
