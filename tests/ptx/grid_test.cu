#include "warpsmith/ptx/grid.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Blocks pass numbers on through global memory, round after round.
struct Rounds {
  static constexpr int kThreads = 64;
  struct Arguments {
    int* numbers;  // [2, blocks]
    uint32_t* counter;
    int rounds;
    bool leave;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto blocks = static_cast<int>(grid_blocks());
    const auto me = static_cast<int>(block_index());
    for (int round = 0; round < a.rounds; ++round) {
      const int* from = a.numbers + round % 2 * blocks;
      if (thread_index() == 0) {
        thread::store(a.numbers + (round + 1) % 2 * blocks + me,
                      thread::load(from + (me + 1) % blocks) + 1);
      }
      ptx::grid_sync(a.counter);
    }
    if (a.leave) ptx::grid_leave(a.counter);
  }
};

void check(bool leave) {
  test::in_every_order([&] {
    test::Buffer<uint32_t> counter(1);  // zero once, for all launches
    for (const int blocks : {1, 2, 7, 8}) {
      for (const int rounds : {1, 2, 5}) {
        test::Buffer<int> numbers(static_cast<size_t>(2 * blocks));
        for (int i = 0; i < blocks; ++i) numbers[static_cast<size_t>(i)] = 100 * i;
        test::run<Rounds>({.blocks = blocks, .threads = 64, .cooperative = true},
                          {numbers.data(), counter.data(), rounds, leave});
        for (int i = 0; i < blocks; ++i) {
          EXPECT_EQ(numbers[static_cast<size_t>(rounds % 2 * blocks + i)],
                    100 * ((i + rounds) % blocks) + rounds);
        }
        EXPECT_EQ(counter[0] & (leave ? 0xFFFFFFFFu : 0x7FFFFFFFu), 0u);
      }
    }
  });
}

TEST(Grid, BarrierIsReadyAgainForAnyGrid) { check(false); }
TEST(Grid, LeavingSetsTheCounterBackToZero) { check(true); }

// The first launch writes numbers, late; the second, which begins while it ends, adds to them.
struct WriteLate {
  static constexpr int kThreads = 64;
  struct Arguments {
    int* numbers;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    ptx::griddepcontrol_launch_dependents();
    const int64_t at = block_index() * kThreads + thread_index();
    uint32_t late = 1;  // some us
    for (int i = 0; i < 10000; ++i) late = late * 1664525U + 1013904223U;
    thread::store(a.numbers + at, static_cast<int>(at) + (late == 0 ? 1 : 0));
  }
};
struct AddOne {
  static constexpr int kThreads = 64;
  using Arguments = WriteLate::Arguments;
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    int* mine = a.numbers + block_index() * kThreads + thread_index();
    thread::store(mine, thread::load(mine) + 1);
  }
};

TEST(Grid, ALaunchThatOverlapsSeesTheOneBefore) {
  constexpr int kBlocks = 200;
  test::Buffer<int> numbers(size_t{kBlocks} * 64);
  for (int round = 0; round < 3; ++round) {
    launch<WriteLate>({.blocks = kBlocks, .threads = 64}, nullptr, {numbers.data()});
    test::run<AddOne>({.blocks = kBlocks, .threads = 64, .overlaps = true}, {numbers.data()});
    for (int i = 0; i < kBlocks * 64; ++i) ASSERT_EQ(numbers[static_cast<size_t>(i)], i + 1);
  }
}

}  // namespace
}  // namespace ws
