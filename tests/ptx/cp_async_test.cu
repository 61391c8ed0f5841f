#include "warpsmith/ptx/cp_async.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Each thread copies kBytes, of which it names `source_bytes`, and all write what they see.
template <int kBytes>
struct Copy {
  static constexpr int kThreads = 64;
  struct Arguments {
    const uint8_t* from;
    uint8_t* to;
    int source_bytes;
  };
  struct SharedStorage {
    SharedArray<uint8_t, kThreads * kBytes> tile;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int first = thread_index() * kBytes;
    ptx::cp_async<kBytes>(shared.tile.pointer(first), a.from + first, a.source_bytes);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();
    const int other = (kThreads - 1 - thread_index()) * kBytes;
    for (int i = 0; i < kBytes; ++i) {
      thread::store(a.to + other + i, static_cast<uint8_t>(shared.tile[other + i]));
    }
  }
};

template <int kBytes>
void copies_and_fills() {
  test::in_every_order([] {
    test::Buffer<uint8_t> from(64 * kBytes);
    std::iota(from.begin(), from.end(), uint8_t{1});
    for (int source = 0; source <= kBytes; ++source) {
      test::Buffer<uint8_t> to(64 * kBytes);
      test::run<Copy<kBytes>>({.threads = 64}, {from.data(), to.data(), source});
      for (size_t i = 0; i < to.size(); ++i) {
        const bool copied = static_cast<int>(i) % kBytes < source;
        ASSERT_EQ(to[i], copied ? from[i] : 0) << "byte " << i << " of " << source;
      }
    }
  });
}
TEST(CpAsync, Copies4BytesAndFillsWithZeros) { copies_and_fills<4>(); }
TEST(CpAsync, Copies8BytesAndFillsWithZeros) { copies_and_fills<8>(); }
TEST(CpAsync, Copies16BytesAndFillsWithZeros) { copies_and_fills<16>(); }

// Sums `steps` rows of 32 words through three stages.
struct Stages {
  static constexpr int kThreads = 32;
  static constexpr int kStages = 3;
  struct Arguments {
    const int* from;
    int* sums;
    int steps;
  };
  struct SharedStorage {
    SharedArray<int, kStages * 32> ring;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto fetch = [&](int step) {
      if (step < a.steps) {
        ptx::cp_async<4>(shared.ring.pointer(step % kStages * 32 + lane_index()),
                         a.from + step * 32 + lane_index());
      }
      ptx::cp_async_commit_group();  // maybe empty, so that groups count steps
    };
    int sum = 0;
    for (int step = 0; step < kStages - 1; ++step) fetch(step);
    for (int step = 0; step < a.steps; ++step) {
      ptx::cp_async_wait_group<kStages - 2>();
      ptx::syncwarp();
      sum += shared.ring[step % kStages * 32 + 31 - lane_index()];
      fetch(step + kStages - 1);
    }
    thread::store(a.sums + lane_index(), sum);
  }
};

TEST(CpAsync, GroupsLandInOrder) {
  test::in_every_order([] {
    for (const int steps : {1, 2, 3, 10}) {
      test::Buffer<int> from(static_cast<size_t>(steps * 32));
      std::iota(from.begin(), from.end(), 0);
      test::Buffer<int> sums(32);
      test::run<Stages>({.threads = 32}, {from.data(), sums.data(), steps});
      for (int lane = 0; lane < 32; ++lane) {
        int expected = 0;
        for (int step = 0; step < steps; ++step) expected += step * 32 + 31 - lane;
        EXPECT_EQ(sums[static_cast<size_t>(lane)], expected);
      }
    }
  });
}

}  // namespace
}  // namespace ws
