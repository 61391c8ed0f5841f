#include "warpsmith/warp/scan.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Values that tell in which order they were put together: the first and the last of a run without
// gaps.
struct Run {
  int32_t first;
  int32_t last;
};
struct Join {
  __device__ Run operator()(const Run& a, const Run& b) const {
    return a.last + 1 == b.first ? Run{a.first, b.last} : Run{-100, -100};
  }
};

template <int kLanes>
struct Scans {
  static constexpr int kThreads = 64;
  using Arguments = int32_t*;  // [threads, 4]
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, int32_t* const& out) const {
    const Run run = warp::inclusive_scan<kLanes>(Run{lane_index(), lane_index()}, Join{});
    const Run below = warp::shift_up<kLanes>(run, Run{-1, -1});
    const Vec<int32_t, 4> all{{run.first, run.last, below.first, below.last}};
    thread::store(out + 4 * thread_index(), all);
  }
};

template <int kLanes>
void check() {
  SCOPED_TRACE(kLanes);
  test::in_every_order([] {
    test::Buffer<int32_t> out(256);
    test::run<Scans<kLanes>>({.blocks = 1, .threads = 64}, out.data());
    for (int t = 0; t < 64; ++t) {
      const int lane = t % kWarpSize;
      const int first = lane / kLanes * kLanes;
      const int32_t* got = out.data() + ptrdiff_t{4} * t;
      EXPECT_EQ(got[0], first) << t;
      EXPECT_EQ(got[1], lane) << t;
      EXPECT_EQ(got[2], lane == first ? -1 : first) << t;
      EXPECT_EQ(got[3], lane == first ? -1 : lane - 1) << t;
    }
  });
}

// From the last lane down: first and last are those of the order in which lanes come.
struct ScansBack {
  static constexpr int kThreads = 64;
  using Arguments = int32_t*;  // [threads, 4]
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, int32_t* const& out) const {
    const int from_last = kWarpSize - 1 - lane_index();
    const Run run = warp::inclusive_scan_back(Run{from_last, from_last}, Join{});
    const Run above = warp::shift_down(run, Run{-1, -1});
    const Vec<int32_t, 4> all{{run.first, run.last, above.first, above.last}};
    thread::store(out + 4 * thread_index(), all);
  }
};

TEST(WarpScan, BackFromTheLastLane) {
  test::in_every_order([] {
    test::Buffer<int32_t> out(256);
    test::run<ScansBack>({.blocks = 1, .threads = 64}, out.data());
    for (int t = 0; t < 64; ++t) {
      const int from_last = kWarpSize - 1 - t % kWarpSize;
      const int32_t* got = out.data() + ptrdiff_t{4} * t;
      EXPECT_EQ(got[0], 0) << t;
      EXPECT_EQ(got[1], from_last) << t;
      EXPECT_EQ(got[2], from_last == 0 ? -1 : 0) << t;
      EXPECT_EQ(got[3], from_last - 1) << t;
    }
  });
}

TEST(WarpScan, KeepsTheOrderOfLanes) {
  check<1>();
  check<2>();
  check<8>();
  check<32>();
}

}  // namespace
}  // namespace ws
