// Kernels that would hang a GPU or touch an address that nobody has: each ends in a named fault,
// and in time. Beside each stands its correct form.
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;
using ptx::Scope;

// ---- Spins -------------------------------------------------------------------------------------

enum class SpinBug { kNone, kPlainLoads, kOtherFlag, kFlagOfNobody };

// Block 1 waits for block 0's flag. Planted: it spins on plain loads of a flag that is never
// raised; on another flag than the one that is; the first block waits as well, for the one before.
Result flag_spin(SpinBug bug) {
  using enum SpinBug;
  test::Buffer<uint32_t> flags(2);
  test::Buffer<int> x(1);
  test::Buffer<int> out(1);
  launch({.blocks = 2, .threads = 32, .cooperative = true}, [&](std::byte*) {
    if (thread_index() != 0) return;
    if (block_index() == 0) {
      if (bug == kFlagOfNobody) {
        while (ptx::ld_acquire<Scope::kGpu>(flags.data() + 1) == 0) {
        }
      }
      thread::store(x.data(), 4);
      if (bug != kPlainLoads) ptx::st_release<Scope::kGpu>(flags.data(), 1u);
    } else {
      const uint32_t* flag = flags.data() + (bug == kOtherFlag ? 1 : 0);
      if (bug == kPlainLoads) {
        while (thread::load(flag) == 0) {
        }
      } else {
        while (ptx::ld_acquire<Scope::kGpu>(flag) == 0) {
        }
      }
      thread::store(out.data(), thread::load(x.data()));
    }
  });
  return equal(out, [](int) { return 4; });
}
TEST(Hang, PlainLoadsOfAFlag) {
  expect_planted({Fault::kDeadlock}, flag_spin, SpinBug::kPlainLoads);
}
TEST(Hang, AnotherFlag) { expect_planted({Fault::kDeadlock}, flag_spin, SpinBug::kOtherFlag); }
TEST(Hang, FlagThatNobodyRaises) {
  expect_planted({Fault::kDeadlock}, flag_spin, SpinBug::kFlagOfNobody);
}

// A fault that says where, and who.
TEST(Hang, NamesTheThreads) {
  test::Buffer<uint32_t> flag(1);
  expect_fault(Fault::kDeadlock, "block 0, thread 33", {.threads = 64}, [&](std::byte*) {
    if (thread_index() != 33) return;
    while (thread::load(flag.data()) == 0) {
    }
  });
}

// A warp waits for a word of shared memory. Planted: who should write it waits for the warp at the
// block's barrier.
Result shared_spin(bool broken) {
  struct Storage {
    SharedArray<int, 1> ready;
  };
  test::Buffer<int> out(64);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    if (me == 0) shared.ready[0] = 0;
    ptx::barrier_sync();
    if (warp_index() == 0) {
      if (broken) {
        while (int{shared.ready[0]} == 0) {
        }
      }
      ptx::barrier_sync();
    } else {
      ptx::barrier_sync();
      if (me == 32) shared.ready[0] = 1;
    }
    ptx::barrier_sync();
    thread::store(out.data() + me, int{shared.ready[0]});
  });
  return equal(out, [](int) { return 1; });
}
TEST(Hang, PlainLoadsOfSharedMemory) { expect_planted({Fault::kDeadlock}, shared_spin); }

// A grid barrier of one's own. Planted: it waits for threads where blocks arrive.
Result own_grid_barrier(bool broken) {
  constexpr int kBlocks = 3;
  test::Buffer<uint32_t> arrived(1);
  test::Buffer<int> x(kBlocks);
  test::Buffer<int> out(kBlocks);
  launch({.blocks = kBlocks, .threads = 64, .cooperative = true}, [&](std::byte*) {
    const auto block = static_cast<int>(block_index());
    if (thread_index() == 0) {
      thread::store(x.data() + block, block);
      ptx::fence_acq_rel<Scope::kGpu>();
      ptx::red_global_add(arrived.data(), 1u);
      const auto expected = static_cast<uint32_t>(broken ? kBlocks * block_threads() : kBlocks);
      while (ptx::atom_global_add(arrived.data(), 0u) < expected) {
      }
      ptx::fence_acq_rel<Scope::kGpu>();
      thread::store(out.data() + block, thread::load(x.data() + kBlocks - 1 - block));
    }
    ptx::barrier_sync();
  });
  return equal(out, [](int i) { return kBlocks - 1 - i; });
}
TEST(Hang, CountThatIsNeverReached) { expect_planted({Fault::kDeadlock}, own_grid_barrier); }

enum class LockBug { kNone, kOrder, kNeverUnlocked };

// Two locks, an account each. Planted: blocks take them in different orders (and hold the first one
// until both have one); or the lock is not given back.
Result transfer(LockBug bug) {
  test::Buffer<uint32_t> locks(2);
  test::Buffer<uint32_t> holding(1);
  test::Buffer<int> accounts(2);
  launch({.blocks = 2, .threads = 32, .cooperative = true}, [&](std::byte*) {
    if (thread_index() != 0) return;
    const auto take = [&](int i) {
      while (ptx::atom_global_cas(locks.data() + i, 0u, 1u) != 0) {
      }
      ptx::fence_acq_rel<Scope::kGpu>();
    };
    const auto give = [&](int i) {
      ptx::fence_acq_rel<Scope::kGpu>();
      ptx::atom_global_exch(locks.data() + i, 0u);
    };
    const int first = bug == LockBug::kOrder ? static_cast<int>(block_index()) : 0;
    take(first);
    if (bug == LockBug::kOrder) {
      ptx::red_global_add(holding.data(), 1u);
      while (ptx::ld_relaxed<Scope::kGpu>(holding.data()) < 2) {
      }
    }
    take(1 - first);
    thread::store(accounts.data(), thread::load(accounts.data()) - 1);
    thread::store(accounts.data() + 1, thread::load(accounts.data() + 1) + 1);
    give(1 - first);
    if (bug != LockBug::kNeverUnlocked) give(first);
  });
  return equal(accounts, [](int i) { return i == 0 ? -2 : 2; });
}
TEST(Hang, LocksInDifferentOrders) {
  expect_planted({Fault::kDeadlock}, transfer, LockBug::kOrder);
}
TEST(Hang, LockThatIsNotGivenBack) {
  expect_planted({Fault::kDeadlock}, transfer, LockBug::kNeverUnlocked);
}

// A long spin is no hang: a thousand steps of block 0, each waited for.
TEST(Hang, LongSpinsAreNone) {
  expect_passes(
      [] {
        test::Buffer<uint32_t> turn(1);
        launch({.blocks = 2, .threads = 32, .cooperative = true}, [&](std::byte*) {
          if (thread_index() != 0) return;
          for (uint32_t step = 0; step < 1000; ++step) {
            if (step % 2 != block_index()) continue;
            while (ptx::ld_relaxed<Scope::kGpu>(turn.data()) != step) {
            }
            ptx::st_relaxed<Scope::kGpu>(turn.data(), step + 1);
          }
        });
        return equal(turn, [](int) { return 1000; });
      },
      4);
}

// ---- Addresses that nobody has -----------------------------------------------------------------

enum class Access { kLoad, kStore, kAtomic, kCpAsync, kBulkLoad };

// One row of a matrix [70000, 70000], of which the memory at hand is this row alone. Planted: the
// index of the element is computed in 32 bits, and wraps around.
Result large_matrix(bool broken, Access access) {
  constexpr int64_t kColumns = 70000;
  constexpr int64_t kRow = 61000;
  static_assert(kRow * kColumns > int64_t{1} << 31);
  struct Storage {
    SharedArray<uint32_t, 32, 128> tile;
    ptx::Mbarrier full;
  };
  test::Buffer<uint32_t> row(filled<uint32_t>(32, [](int i) { return i; }));
  test::Buffer<uint32_t> out(32);
  // Where element (0, 0) would be.
  const uintptr_t base = reinterpret_cast<uintptr_t>(row.data()) - kRow * kColumns * 4;
  launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
    const int lane = lane_index();
    int64_t index = kRow * kColumns;
    if (broken) index = static_cast<int32_t>(static_cast<uint32_t>(index));
    auto* const at = reinterpret_cast<uint32_t*>(base + static_cast<uintptr_t>(index) * 4);
    uint32_t value = static_cast<uint32_t>(lane);
    switch (access) {
      case Access::kLoad: value = thread::load(at + lane); break;
      case Access::kStore: thread::store(at + lane, value); break;
      case Access::kAtomic: value = ptx::atom_global_add(at + lane, 0u); break;
      case Access::kCpAsync:
        ptx::cp_async<4>(shared.tile.pointer(lane), at + lane);
        ptx::cp_async_commit_group();
        ptx::cp_async_wait_group<0>();
        value = shared.tile[lane];
        break;
      case Access::kBulkLoad:
        if (lane == 0) {
          ptx::mbarrier_init(shared.full, 1);
          ptx::fence_mbarrier_init();
          ptx::mbarrier_arrive_expect_tx(shared.full, 128);
          ptx::bulk_load(shared.tile.pointer(), at, 128, shared.full);
        }
        ptx::syncwarp();
        ptx::mbarrier_wait_parity(shared.full, 0);
        value = shared.tile[lane];
    }
    thread::store(out.data() + lane, value);
  });
  return equal(out, [](int i) { return i; });
}
TEST(Overflow, IndexOf32Bits) {
  for (const Access access :
       {Access::kLoad, Access::kStore, Access::kAtomic, Access::kCpAsync, Access::kBulkLoad}) {
    SCOPED_TRACE(static_cast<int>(access));
    expect_planted({Fault::kOutOfRange}, [=](bool broken) { return large_matrix(broken, access); });
  }
}

// Planted: the index of the left neighbour is unsigned, and that of the first lies 16 GiB further
// on.
Result left_neighbour(bool broken) {
  test::Buffer<float> x(filled<float>(32, [](int i) { return i + 1; }));
  test::Buffer<float> out(32);
  launch({.threads = 32}, [&](std::byte*) {
    const auto me = static_cast<uint32_t>(thread_index());
    const float left = me > 0 || broken ? thread::load(x.data() + (me - 1)) : 0.0F;
    thread::store(out.data() + me, left);
  });
  return equal(out, [](int i) { return i; });
}
TEST(Overflow, UnsignedBelowZero) { expect_planted({Fault::kOutOfRange}, left_neighbour); }

// An optional tensor that was not given. Planted: nobody asks whether it was.
Result optional_bias(bool broken) {
  test::Buffer<float> out(32);
  test::Buffer<uintptr_t> bias(1);  // null, though no compiler can tell
  launch({.threads = 32}, [&](std::byte*) {
    const int me = thread_index();
    const auto* from = reinterpret_cast<const float*>(bias[0]);
    const float added = broken || from != nullptr ? thread::load(from + me) : 0.0F;
    thread::store(out.data() + me, 1 + added);
  });
  return equal(out, [](int) { return 1; });
}
TEST(Overflow, NullPointer) { expect_planted({Fault::kOutOfRange}, optional_bias); }

}  // namespace
}  // namespace ws::emulator
