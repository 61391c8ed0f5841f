// Kernels whose accesses are all atomic or ordered, so that no two of them race, and that are wrong
// all the same: another thread must come between two of them. Random orders have to bring it about.
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;
using ptx::Scope;

// Without the bug the kernel is right; with it, it is wrong in at least so many orders of kMany.
constexpr int kMany = 24;
template <class Kernel>
void expect_wrong(Kernel kernel, int least) {
  expect_passes([&] { return kernel(false); });
  int wrong = 0;
  in_orders(kMany, [&] { wrong += kernel(true) ? 0 : 1; });
  EXPECT_GE(wrong, least) << "of " << kMany << " orders";
}

// Planted: a counter is loaded, then stored, each of them atomically.
Result counted(bool broken) {
  test::Buffer<uint32_t> counter(1);
  launch({.blocks = 2, .threads = 32, .cooperative = true}, [&](std::byte*) {
    if (broken) {
      const uint32_t before = ptx::ld_relaxed<Scope::kGpu>(counter.data());
      ptx::st_relaxed<Scope::kGpu>(counter.data(), before + 1);
    } else {
      ptx::red_global_add(counter.data(), 1u);
    }
  });
  return equal(counter, [](int) { return 64; });
}
TEST(Preemption, BetweenALoadAndItsStore) { expect_wrong(counted, kMany / 2); }

// A queue of 40 rows for 64 threads. Planted: a look whether there is one left, then the draw; the
// row behind the last is drawn too.
Result drawn(bool broken) {
  constexpr uint32_t kRows = 40;
  test::Buffer<uint32_t> next(1);
  test::Buffer<int> done(kRows + 64);  // with room for what should not be drawn
  launch({.threads = 64}, [&](std::byte*) {
    if (broken) {
      while (ptx::ld_relaxed<Scope::kGpu>(next.data()) < kRows) {
        ptx::red_global_add(done.data() + ptx::atom_global_add(next.data(), 1u), 1);
      }
    } else {
      for (uint32_t row = 0; (row = ptx::atom_global_add(next.data(), 1u)) < kRows;) {
        ptx::red_global_add(done.data() + row, 1);
      }
    }
  });
  return equal(done, [](int i) { return i < static_cast<int>(kRows) ? 1 : 0; });
}
TEST(Preemption, BetweenALookAndADraw) { expect_wrong(drawn, kMany / 2); }

// The largest value of all threads. Planted: compared first, stored then. It takes a store that
// comes behind the largest one's.
Result largest(bool broken) {
  test::Buffer<uint32_t> largest(1);
  launch({.blocks = 2, .threads = 32, .cooperative = true}, [&](std::byte*) {
    // Values in no order of the threads, so that a lost one shows wherever they begin.
    const auto value = static_cast<uint32_t>(block_index() * 32 + thread_index()) * 37 % 64 + 1;
    if (!broken) {
      ptx::atom_global_max(largest.data(), value);
    } else if (ptx::ld_relaxed<Scope::kGpu>(largest.data()) < value) {
      ptx::st_relaxed<Scope::kGpu>(largest.data(), value);
    }
  });
  return equal(largest, [](int) { return 64; });
}
TEST(Preemption, BetweenAComparisonAndItsStore) { expect_wrong(largest, kMany / 4); }

// Warps push onto a stack in shared memory, under a lock. Planted: the place is read under the lock
// and written under the lock, but given back in between.
Result pushed(bool broken) {
  struct Storage {
    SharedArray<int, 1> top;
  };
  test::Buffer<uint32_t> lock(1);
  test::Buffer<int> out(1);
  launch_with<Storage>({.threads = 256}, [&](Storage& shared) {
    const auto take = [&] {
      while (ptx::atom_global_cas(lock.data(), 0u, 1u) != 0) {
      }
      ptx::fence_acq_rel<Scope::kGpu>();
    };
    const auto give = [&] {
      ptx::fence_acq_rel<Scope::kGpu>();
      ptx::atom_global_exch(lock.data(), 0u);
    };
    if (thread_index() == 0) shared.top[0] = 0;
    ptx::barrier_sync();
    if (lane_index() == 0) {
      for (int i = 0; i < 4; ++i) {
        take();
        const int top = shared.top[0];
        if (broken) {
          give();
          take();
        }
        shared.top[0] = top + 1;
        give();
      }
    }
    ptx::barrier_sync();
    if (thread_index() == 0) thread::store(out.data(), int{shared.top[0]});
  });
  return equal(out, [](int) { return 32; });
}
TEST(Preemption, BetweenTwoHoldsOfALock) { expect_wrong(pushed, kMany / 2); }

}  // namespace
}  // namespace ws::emulator
