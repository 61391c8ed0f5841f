#include "warpsmith/ptx/shuffle.hpp"

#include "tests/run.hpp"
#include "warpsmith/types.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws {
namespace {

enum class Mode { kIdx, kUp, kDown, kBfly };

// Every lane contributes 100 + its index.
template <Mode kMode, int kWidth>
struct Shuffle {
  static constexpr int kThreads = 64;
  struct Arguments {
    uint32_t* y;
    int operand;
    uint32_t mask;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    if ((arguments.mask >> lane_index() & 1) == 0) return;
    const uint32_t value = 100 + static_cast<uint32_t>(thread_index());
    uint32_t result = 0;
    if constexpr (kMode == Mode::kIdx) {
      result = ptx::shfl_sync_idx<kWidth>(arguments.mask, value, arguments.operand);
    } else if constexpr (kMode == Mode::kUp) {
      result = ptx::shfl_sync_up<kWidth>(arguments.mask, value, arguments.operand);
    } else if constexpr (kMode == Mode::kDown) {
      result = ptx::shfl_sync_down<kWidth>(arguments.mask, value, arguments.operand);
    } else {
      result = ptx::shfl_sync_bfly<kWidth>(arguments.mask, value, arguments.operand);
    }
    arguments.y[thread_index()] = result;
  }
};

// The source lane, from the pseudocode of the PTX ISA: j, or the lane itself where that is outside.
int source_lane(Mode mode, int width, int lane, int b) {
  const int segment_mask = (32 - width) & 31;
  const int min_lane = lane & segment_mask;
  const int clamp = mode == Mode::kUp ? 0 : 31;
  const int max_lane = min_lane | (clamp & ~segment_mask);
  switch (mode) {
    case Mode::kUp: return lane - b >= max_lane ? lane - b : lane;
    case Mode::kDown: return lane + b <= max_lane ? lane + b : lane;
    case Mode::kBfly: return (lane ^ b) <= max_lane ? lane ^ b : lane;
    case Mode::kIdx: return min_lane | (b & ~segment_mask);
  }
  return -1;
}

template <Mode kMode, int kWidth>
void test_shuffle() {
  const bool within_segment = kMode == Mode::kIdx || kMode == Mode::kBfly;
  for (int operand = 0; operand < (within_segment ? kWidth : 32); ++operand) {
    SCOPED_TRACE(operand);
    test::Buffer<uint32_t> y(64);
    test::run<Shuffle<kMode, kWidth>>({.threads = 64}, {y.data(), operand, kFullMask});
    for (int t = 0; t < 64; ++t) {
      const int source = t / 32 * 32 + source_lane(kMode, kWidth, t % 32, operand);
      ASSERT_EQ(y[static_cast<size_t>(t)], 100 + source) << "thread " << t;
    }
  }
}

template <int kWidth>
void test_width() {
  SCOPED_TRACE(kWidth);
  test_shuffle<Mode::kIdx, kWidth>();
  test_shuffle<Mode::kUp, kWidth>();
  test_shuffle<Mode::kDown, kWidth>();
  test_shuffle<Mode::kBfly, kWidth>();
}

TEST(Shuffle, EveryModeOperandAndWidth) {
  test::in_every_order([] {
    test_width<32>();
    test_width<16>();
    test_width<8>();
    test_width<4>();
    test_width<2>();
    test_width<1>();
  });
}

TEST(Shuffle, SomeLanes) {
  test::Buffer<uint32_t> y(64);
  test::run<Shuffle<Mode::kIdx, 32>>({.threads = 64}, {y.data(), 3, 0x0000001Fu});
  for (size_t t = 0; t < 64; ++t) EXPECT_EQ(y[t], t % 32 < 5 ? 103 + t / 32 * 32 : 0);
}

struct Wide {
  double d;
  uint16_t h[3];
};

struct ShuffleWide {
  static constexpr int kThreads = 32;
  struct Arguments {
    Wide* y;
    half* h;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int lane = lane_index();
    const auto low = static_cast<uint16_t>(lane);
    const Wide mine{lane + 0.5, {low, static_cast<uint16_t>(lane + 1), 7}};
    arguments.y[lane] = warp::shuffle_xor(mine, 5);
    arguments.y[32 + lane] = warp::shuffle(mine, 9);
    arguments.y[64 + lane] = warp::shuffle_up(mine, 1);
    arguments.y[96 + lane] = warp::shuffle_down<16>(mine, 2);
    arguments.h[lane] = warp::shuffle_xor(half(static_cast<float>(lane)), 1);
  }
};

TEST(Shuffle, AnyType) {
  test::in_every_order([] {
    test::Buffer<Wide> y(128);
    test::Buffer<half> h(32);
    test::run<ShuffleWide>({.threads = 32}, {y.data(), h.data()});
    for (size_t i = 0; i < 32; ++i) {
      const auto expect_lane = [&](const Wide& value, size_t lane) {
        EXPECT_EQ(value.d, static_cast<double>(lane) + 0.5);
        EXPECT_EQ(value.h[0], lane);
        EXPECT_EQ(value.h[1], lane + 1);
        EXPECT_EQ(value.h[2], 7);
      };
      expect_lane(y[i], i ^ 5);
      expect_lane(y[32 + i], 9);
      expect_lane(y[64 + i], i == 0 ? 0 : i - 1);
      expect_lane(y[96 + i], i % 16 < 14 ? i + 2 : i);
      EXPECT_EQ(static_cast<float>(h[i]), static_cast<float>(i ^ 1));
    }
  });
}

#ifdef WS_EMULATED
TEST(Shuffle, Faults) {
  using emulator::Fault;
  test::Buffer<uint32_t> y(64);
  const Grid grid{.threads = 64};
  test::expect_fault<Shuffle<Mode::kIdx, 32>>(Fault::kOutOfRange, "shfl.sync.idx: 32", grid,
                                              {y.data(), 32, kFullMask});
  test::expect_fault<Shuffle<Mode::kIdx, 8>>(Fault::kOutOfRange, "shfl.sync.idx: 8", grid,
                                             {y.data(), 8, kFullMask});
  test::expect_fault<Shuffle<Mode::kBfly, 16>>(Fault::kOutOfRange, "shfl.sync.bfly: 16", grid,
                                               {y.data(), 16, kFullMask});
  test::expect_fault<Shuffle<Mode::kUp, 32>>(Fault::kOutOfRange, "shfl.sync.up: -1", grid,
                                             {y.data(), -1, kFullMask});
  test::expect_fault<Shuffle<Mode::kBfly, 32>>(Fault::kOutOfRange, "not in the member mask", grid,
                                               {y.data(), 16, 0xFFFFu});
}

// A lane that the mask names never arrives.
struct MissingLane {
  static constexpr int kThreads = 32;
  struct Arguments {};
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments&) const {
    if (lane_index() != 13) ptx::shfl_sync_bfly(kFullMask, 0, 1);
  }
};

TEST(Shuffle, DivergenceIsAFault) {
  test::in_every_order([] {
    test::expect_fault<MissingLane>(emulator::Fault::kDivergence, "shfl.sync.bfly", {.threads = 32},
                                    {});
  });
}
#endif

}  // namespace
}  // namespace ws
