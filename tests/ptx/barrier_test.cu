#include "warpsmith/ptx/barrier.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Each thread adds its neighbour's number, round after round.
struct Rotation {
  static constexpr int kThreads = 1024;
  struct Arguments {
    int* sums;
    int rounds;
  };
  struct SharedStorage {
    SharedArray<int, kThreads> numbers;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int me = thread_index();
    int sum = me;
    for (int round = 0; round < a.rounds; ++round) {
      shared.numbers[me] = sum;
      ptx::barrier_sync();
      const int other = shared.numbers[(me + 33) % block_threads()];
      ptx::barrier_sync();
      sum += other;
    }
    thread::store(a.sums + me, sum);
  }
};

TEST(Barrier, BlockMeetsWhateverItsSize) {
  test::in_every_order([] {
    for (const int threads : {1, 31, 32, 33, 100, 256, 1024}) {
      test::Buffer<int> sums(static_cast<size_t>(threads));
      test::run<Rotation>({.threads = threads}, {sums.data(), 3});
      std::vector<int> expected(static_cast<size_t>(threads));
      std::iota(expected.begin(), expected.end(), 0);
      for (int round = 0; round < 3; ++round) {
        const std::vector<int> before = expected;
        for (int i = 0; i < threads; ++i) {
          expected[static_cast<size_t>(i)] += before[static_cast<size_t>((i + 33) % threads)];
        }
      }
      EXPECT_EQ(std::vector<int>(sums.begin(), sums.end()), expected) << threads;
    }
  });
}

// Warps 0 and 1 produce, warps 2 and 3 consume, through one buffer and two barriers.
struct Handover {
  static constexpr int kThreads = 128;
  static constexpr int kFull = 1;
  static constexpr int kEmpty = 15;
  struct Arguments {
    int* out;
    int rounds;
  };
  struct SharedStorage {
    SharedArray<int, 64> buffer;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int me = thread_index() % 64;
    for (int round = 0; round < a.rounds; ++round) {
      if (warp_index() < 2) {
        if (round > 0) ptx::barrier_sync(kEmpty, 128);
        shared.buffer[me] = 1000 * round + me;
        ptx::barrier_arrive(kFull, 128);
      } else {
        ptx::barrier_sync(kFull, 128);
        thread::store(a.out + round * 64 + me, static_cast<int>(shared.buffer[63 - me]));
        if (round + 1 < a.rounds) ptx::barrier_arrive(kEmpty, 128);
      }
    }
  }
};

TEST(Barrier, NamedBarriersHandOver) {
  test::in_every_order([] {
    test::Buffer<int> out(5 * 64);
    test::run<Handover>({.threads = 128}, {out.data(), 5});
    for (int i = 0; i < 5 * 64; ++i) {
      EXPECT_EQ(out[static_cast<size_t>(i)], 1000 * (i / 64) + 63 - i % 64);
    }
  });
}

// Two halves of a block meet apart from each other, each on its own barrier and as often as it
// likes.
struct Halves {
  static constexpr int kThreads = 128;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {
    SharedArray<int, kThreads> numbers;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int half = thread_index() / 64;
    int value = thread_index();
    for (int round = 0; round < (half == 0 ? 2 : 7); ++round) {
      shared.numbers[thread_index()] = value;
      ptx::barrier_sync(3 + half, 64);
      value = shared.numbers[half * 64 + (thread_index() + 1) % 64];
      ptx::barrier_sync(3 + half, 64);
    }
    thread::store(a.out + thread_index(), value);
  }
};

TEST(Barrier, NamedBarriersAreIndependent) {
  test::in_every_order([] {
    test::Buffer<int> out(128);
    test::run<Halves>({.threads = 128}, {out.data()});
    for (int i = 0; i < 128; ++i) {
      EXPECT_EQ(out[static_cast<size_t>(i)], i < 64 ? (i + 2) % 64 : 64 + (i + 7) % 64);
    }
  });
}

// Parts of a warp meet apart.
struct Quarters {
  static constexpr int kThreads = 32;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {
    SharedArray<int, 32> numbers;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int lane = lane_index();
    const uint32_t mask = 0xFFu << (lane / 8 * 8);
    shared.numbers[lane] = lane;
    ptx::syncwarp(mask);
    const int other = shared.numbers[lane ^ 7];
    ptx::syncwarp();
    shared.numbers[lane] = other;
    ptx::syncwarp();
    thread::store(a.out + lane, static_cast<int>(shared.numbers[31 - lane]));
  }
};

TEST(Barrier, WarpMeetsUnderAMask) {
  test::in_every_order([] {
    test::Buffer<int> out(32);
    test::run<Quarters>({.threads = 32}, {out.data()});
    for (int i = 0; i < 32; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], (31 - i) ^ 7);
  });
}

}  // namespace
}  // namespace ws
