// Launches that their host thread ends, as Python does where Ctrl-C is pressed.
#include "warpsmith/interrupt.hpp"

#include <atomic>
#include <thread>

#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {
namespace {

using runtime::Interrupted;
using runtime::interruption;

class Interrupt : public testing::Test {
 protected:
  void TearDown() override { interruption = nullptr; }
};

void expect_interrupted(const LaunchShape& shape, FunctionRef<void(std::byte*)> body) {
  test::in_every_order([&] {
    interruption = [] { throw Interrupted{}; };
    EXPECT_THROW(launch(shape, body), Interrupted);
    interruption = nullptr;
    test::Buffer<int> out(64);  // the emulator goes on
    launch({.blocks = 2, .threads = 32}, [&](std::byte*) {
      const auto i = static_cast<int>(32 * block_index() + thread_index());
      thread::store(out.data() + i, i);
    });
    EXPECT_TRUE(equal(out, [](int i) { return i; }));
  });
}

// Of one block the launching thread runs all; of many, helpers may run the last.
TEST_F(Interrupt, EndsAThreadThatNeverWaits) {
  test::Buffer<uint32_t> counter(1);
  for (const int blocks : {1, 8}) {
    expect_interrupted({.blocks = blocks, .threads = 512}, [&](std::byte*) {
      for (;;) ptx::atom_global_add(counter.data(), 1u);
    });
  }
}

TEST_F(Interrupt, EndsThreadsThatMeet) {
  for (const int blocks : {1, 8}) {
    expect_interrupted({.blocks = blocks, .threads = 512}, [](std::byte*) {
      for (;;) ptx::barrier_sync();
    });
  }
}

// The launching thread has run its block, and waits for a helper that does not end.
std::atomic<bool> helps;
std::atomic<int> ended;
TEST_F(Interrupt, EndsWhatOnlyAHelperRuns) {
  constexpr int kThreads = 512;
  const Options before = options();
  options().workers = 2;
  test::Buffer<uint32_t> counter(1);
  const auto caller = std::this_thread::get_id();
  interruption = [] {
    if (ended == kThreads) throw Interrupted{};
  };
  const auto body = [&](std::byte*) {
    if (std::this_thread::get_id() != caller) {
      helps = true;
      for (;;) ptx::atom_global_add(counter.data(), 1u);
    }
    while (!helps) std::this_thread::yield();
    ++ended;
  };
  EXPECT_THROW(launch({.blocks = 2, .threads = kThreads}, body), Interrupted);
  options() = before;
}

TEST_F(Interrupt, LeavesALaunchAloneThatNobodyEnds) {
  static int questions;
  questions = 0;
  interruption = [] {
    ++questions;
    EXPECT_THROW(launch({.blocks = 1, .threads = 1}, [](std::byte*) {}), Error);
  };
  test::Buffer<uint32_t> counter(1);
  run_kernel({.blocks = 4, .threads = 64}, [&](std::byte*) {
    for (int i = 0; i < 4000; ++i) ptx::atom_global_add(counter.data(), 1u);
  });
  EXPECT_GT(questions, 0);
  EXPECT_EQ(counter[0] % (4 * 64 * 4000), 0u);
}

}  // namespace
}  // namespace ws::emulator
