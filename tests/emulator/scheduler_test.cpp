#include <atomic>
#include <set>
#include <thread>

#include "emulator/emulator.hpp"
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"

namespace ws::emulator {
namespace {

TEST(Launch, RunsEveryThreadOnce) {
  for (const auto& shape :
       {LaunchShape{1, 1}, LaunchShape{1, 1024}, LaunchShape{1000, 33}, LaunchShape{12, 64, 4},
        LaunchShape{.blocks = 8, .threads = 32, .cooperative = true}}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(shape.blocks * shape.threads));
    run_kernel(shape, [&](std::byte*) {
      EXPECT_EQ(block_threads(), shape.threads);
      EXPECT_EQ(grid_blocks(), shape.blocks);
      EXPECT_EQ(cluster_size(), shape.cluster);
      EXPECT_EQ(cluster_rank(), block_index() % shape.cluster);
      EXPECT_EQ(warp_index() * 32 + lane_index(), thread_index());
      ++visits[static_cast<size_t>(block_index() * shape.threads + thread_index())];
    });
    for (const auto& v : visits) ASSERT_EQ(v, 4);
  }
}

TEST(Launch, RefusesShapesThatCudaHasNot) {
  const auto nothing = [](std::byte*) {};
  EXPECT_THROW(launch({0, 32}, nothing), InvalidArgument);
  EXPECT_THROW(launch({1, 1025}, nothing), InvalidArgument);
  EXPECT_THROW(launch({3, 32, 2}, nothing), InvalidArgument);
  EXPECT_THROW(launch({1, 32, 1, 232449}, nothing), InvalidArgument);
  EXPECT_THROW(launch({1, 32}, [&](std::byte*) { launch({1, 32}, nothing); }), Error);
  EXPECT_THROW(thread_index(), Error);
}

std::vector<int> order_of_threads(Order order, uint64_t seed) {
  const Options before = options();
  options().order = order;
  options().seed = seed;
  std::vector<int> visited;
  launch({1, 64}, [&](std::byte*) { visited.push_back(thread_index()); });
  options() = before;
  return visited;
}

TEST(Order, IsAsAskedAndRepeatable) {
  std::vector<int> forward(64);
  for (int i = 0; i < 64; ++i) forward[static_cast<size_t>(i)] = i;
  EXPECT_EQ(order_of_threads(Order::kForward, 0), forward);
  EXPECT_EQ(order_of_threads(Order::kReverse, 0),
            std::vector<int>(forward.rbegin(), forward.rend()));
  const std::vector<int> random = order_of_threads(Order::kRandom, 1);
  EXPECT_EQ(order_of_threads(Order::kRandom, 1), random);
  EXPECT_NE(order_of_threads(Order::kRandom, 2), random);
  EXPECT_EQ(std::set<int>(random.begin(), random.end()).size(), 64u);
}

TEST(Order, MissingBarrierShowsInSomeOrder) {
  // Every thread reads what its neighbour writes, and nothing makes it wait.
  const Options before = options();
  int faults = 0;
  for (const Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
    options().order = order;
    try {
      launch({1, 64, 1, 256}, [](std::byte* shared) {
        const auto me = static_cast<size_t>(thread_index());
        store_shared(shared, me * 4, thread_index());
        load_shared<int>(shared, (me + 1) % 64 * 4);
      });
    } catch (const FaultError& error) {
      EXPECT_EQ(error.fault(), Fault::kUnwrittenRead);
      ++faults;
    }
  }
  options() = before;
  EXPECT_GE(faults, 2);
}

TEST(Order, RandomChangesThreadsBetweenTwoAccesses) {
  // Each lane takes a number and adds one, without an atomic: right as long as nobody comes
  // between.
  const auto sum = [](Order order, uint64_t seed) {
    const Options before = options();
    options().off = 1u << static_cast<int>(Detector::kSharedRaces);  // which would say so at once
    options().order = order;
    options().seed = seed;
    int total = 0;
    launch({1, 64, 1, 4}, [&](std::byte* shared) {
      if (thread_index() == 0) store_shared(shared, 0, 0);
      ptx::barrier_sync();
      store_shared(shared, 0, load_shared<int>(shared, 0) + 1);
      // A second access in between shows it.
      const int mine = load_shared<int>(shared, 0);
      total = std::max(total, mine - load_shared<int>(shared, 0));
      total = std::max(total, load_shared<int>(shared, 0) - mine);
    });
    options() = before;
    return total;
  };
  EXPECT_EQ(sum(Order::kForward, 0), 0);
  EXPECT_EQ(sum(Order::kReverse, 0), 0);
  int seen = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) seen += sum(Order::kRandom, seed) > 0 ? 1 : 0;
  EXPECT_GT(seen, 0);
}

// ---- Divergence --------------------------------------------------------------------------------

TEST(Divergence, ThreadsThatLeaveBeforeABarrier) {
  expect_fault(Fault::kDivergence, "barrier.sync 0: 40 of 64 threads arrived", {2, 64},
               [](std::byte*) {
                 if (thread_index() < 40) ptx::barrier_sync();
               });
}

TEST(Divergence, LanesThatLeaveBeforeAWarpInstruction) {
  expect_fault(Fault::kDivergence, "thread 7 has exited", {1, 32}, [](std::byte*) {
    if (lane_index() != 7) ptx::syncwarp();
  });
}

TEST(Divergence, HalvesOfAWarpAtDifferentBarriers) {
  expect_fault(
      Fault::kDivergence, "lanes of a warp execute it at two places", {1, 32},
      [](std::byte*) { lane_index() < 16 ? ptx::barrier_sync(1, 32) : ptx::barrier_sync(2, 32); });
}

TEST(Divergence, LanesAtDifferentInstructions) {
  expect_fault(Fault::kDivergence, "waits in", {1, 32}, [](std::byte*) {
    lane_index() < 16 ? ptx::syncwarp() : static_cast<void>(ptx::elect_sync());
  });
}

TEST(Divergence, MasksThatDoNotMatch) {
  expect_fault(Fault::kDivergence, "bar.warp.sync", {1, 32},
               [](std::byte*) { ptx::syncwarp(lane_index() < 16 ? 0xFFFFFFFFu : 0xFFFF0000u); });
}

TEST(Divergence, MaskNamesLanesThatTheWarpHasNot) {
  expect_fault(Fault::kDivergence, "names lanes up to 31", {1, 40}, [](std::byte*) {
    if (warp_index() == 1) ptx::syncwarp();
  });
}

TEST(Divergence, WarpgroupIsNotWhole) {
  expect_fault(Fault::kInvalidUse, "no whole warpgroup", {1, 160}, [](std::byte*) {
    if (thread_index() >= 128) ptx::setmaxnreg_dec<40>();
  });
  expect_fault(Fault::kDivergence, "setmaxnreg.dec: 96 of 128", {1, 128}, [](std::byte*) {
    if (warp_index() < 3) ptx::setmaxnreg_dec<40>();
  });
}

TEST(Divergence, BlockThatLeavesBeforeAGridBarrier) {
  uint32_t counter = 0;
  expect_fault(Fault::kDivergence, "grid barrier: 96 of 128 threads arrived",
               {.blocks = 4, .threads = 32, .cooperative = true}, [&](std::byte*) {
                 if (block_index() != 2) ptx::grid_sync(&counter);
               });
}

TEST(Divergence, LaneOutsideItsOwnMask) {
  expect_fault(Fault::kInvalidUse, "not in its own member mask", {1, 32},
               [](std::byte*) { ptx::syncwarp(0xFFFF); });
}

// ---- Deadlock ----------------------------------------------------------------------------------

TEST(Deadlock, NamesWhereThreadsWait) {
  expect_fault(Fault::kDeadlock, "phase 0, 1 of 2 arrivals pending", {1, 64, 1, 8},
               [](std::byte* shared) {
                 auto& barrier = at<ptx::Mbarrier>(shared, 0);
                 if (thread_index() == 0) ptx::mbarrier_init(barrier, 2);
                 ptx::barrier_sync();
                 if (thread_index() == 1) ptx::mbarrier_arrive(barrier);
                 ptx::mbarrier_wait_parity(barrier, 0);
               });
}

TEST(Deadlock, TooFewWarpsAtANamedBarrier) {
  expect_fault(Fault::kDeadlock, "waits in barrier.sync 1", {1, 128}, [](std::byte*) {
    if (warp_index() < 2) ptx::barrier_sync(1, 96);
  });
}

TEST(Divergence, BarriersInOppositeOrder) {
  expect_fault(Fault::kDivergence, "32 of 64 threads arrived", {1, 64}, [](std::byte*) {
    ptx::barrier_sync(1 + warp_index(), 64);
    ptx::barrier_sync(2 - warp_index(), 64);
  });
}

TEST(Deadlock, ThoseHeldUpByTheOneThatWaitsAreNotBlamed) {
  // Lane 0 waits for ever, the others for lane 0.
  expect_fault(Fault::kDeadlock, "block 0, thread 0 waits in mbarrier.try_wait", {1, 32, 1, 8},
               [](std::byte* shared) {
                 auto& barrier = at<ptx::Mbarrier>(shared, 0);
                 if (thread_index() == 0) {
                   ptx::mbarrier_init(barrier, 1);
                   ptx::mbarrier_wait_parity(barrier, 0);
                 }
                 ptx::syncwarp();
               });
}

TEST(Deadlock, SpinningForEver) {
  expect_fault(Fault::kDeadlock, "waits in spin", {1, 32}, [](std::byte*) {
    for (;;) yield("spin");
  });
  expect_fault(Fault::kDeadlock, "mbarrier.try_wait", {1, 32, 1, 8}, [](std::byte* shared) {
    auto& barrier = at<ptx::Mbarrier>(shared, 0);
    if (thread_index() > 0) return;
    ptx::mbarrier_init(barrier, 1);
    while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {
    }
  });
}

TEST(Yield, LetsOthersRun) {
  run_kernel({.blocks = 4, .threads = 32, .cooperative = true}, [turn = 0](std::byte*) mutable {
    const int me = static_cast<int>(block_index()) * 32 + thread_index();
    while (turn != me) yield("waiting for a turn");
    turn = (turn + 1) % 128;
  });
}

// ---- After a fault -----------------------------------------------------------------------------

TEST(Fault, UnwindsThreadsThatWait) {
  static std::atomic<int> alive;
  struct Guard {
    Guard() { ++alive; }
    ~Guard() { --alive; }
  };
  alive = 0;
  expect_fault(Fault::kInvalidUse, "on purpose", {4, 128}, [](std::byte*) {
    const Guard guard;
    const std::vector<int> memory(100);
    if (thread_index() == 77) fail(Fault::kInvalidUse, "on purpose");
    ptx::barrier_sync();
  });
  EXPECT_EQ(alive, 0);
}

TEST(Fault, CarriesBlockThreadAndLaunch) {
  try {
    launch({5, 64, 1, 16}, [](std::byte*) {
      if (block_index() == 3 && thread_index() == 9) fail(Fault::kMisaligned, "here");
    });
    FAIL();
  } catch (const FaultError& error) {
    EXPECT_EQ(error.fault(), Fault::kMisaligned);
    EXPECT_EQ(error.block(), 3);
    EXPECT_EQ(error.thread(), 9);
    EXPECT_EQ(error.message(), "misaligned: here");
    EXPECT_EQ(error.context().launch, "blocks=5 threads=64 cluster=1 shared=16");
    EXPECT_EQ(error.context().place, "block 3, thread 9 (emulator)");
  }
}

TEST(Fault, OtherExceptionsPassThrough) {
  test::in_every_order([] {
    EXPECT_THROW(launch({8, 64},
                        [](std::byte*) {
                          if (thread_index() == 5) throw std::runtime_error("of the kernel");
                          ptx::barrier_sync();
                        }),
                 std::runtime_error);
  });
}

TEST(Fault, TheNextLaunchIsUnharmed) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(launch({8, 256},
                        [](std::byte*) {
                          if (lane_index() > 0) ptx::barrier_sync();
                        }),
                 FaultError);
    launch({8, 256}, [](std::byte*) { ptx::barrier_sync(); });
  }
}

// ---- Counts, host threads ----------------------------------------------------------------------

TEST(Counts, SumOverBlocksAndLaunches) {
  reset_counts();
  for (int i = 0; i < 3; ++i) {
    launch({10, 96}, [](std::byte*) {
      ptx::barrier_sync();
      ptx::syncwarp();
      ptx::syncwarp();
    });
  }
  const Counts all = counts();
  const auto of = [&](Count what) { return all[static_cast<size_t>(what)]; };
  EXPECT_EQ(of(Count::kLaunches), 3u);
  EXPECT_EQ(of(Count::kBlocks), 30u);
  EXPECT_EQ(of(Count::kThreads), 30u * 96);
  EXPECT_EQ(of(Count::kBarriers), 30u);
  EXPECT_EQ(of(Count::kWarpInstructions), 30u * 3 * 2);
  reset_counts();
  EXPECT_EQ(counts(), Counts{});
}

TEST(Launch, FromSeveralHostThreads) {
  std::atomic<int64_t> sum{0};
  std::vector<std::jthread> hosts;
  for (int h = 0; h < 4; ++h) {
    hosts.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        launch({16, 128}, [&](std::byte*) {
          ptx::barrier_sync();
          ++sum;
        });
      }
    });
  }
  hosts.clear();
  EXPECT_EQ(sum, 4 * 10 * 16 * 128);
}

}  // namespace
}  // namespace ws::emulator
