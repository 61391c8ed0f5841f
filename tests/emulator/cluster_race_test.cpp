// Races in the shared memory of a cluster: kernels with one planted bug each, and their correct
// form.
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;
using ptx::Scope;

constexpr std::initializer_list<Fault> kRaceOrCopy = {Fault::kRace, Fault::kUnwrittenRead,
                                                      Fault::kInvalidUse};
constexpr LaunchShape kPair{.blocks = 2, .threads = 64, .cluster = 2};
constexpr LaunchShape kFour{.blocks = 4, .threads = 32, .cluster = 4};

enum class ReduceBug { kNone, kBlockBarrier, kRelaxedArrive, kNoBarrierBetweenRounds };

// Each block offers a partial sum, each reads all four, in two rounds. Planted: a barrier of the
// block where it takes the cluster's; an arrival that passes nothing on; a second round that
// overwrites what others still read.
Result cluster_reduce(ReduceBug bug) {
  struct Storage {
    SharedArray<int, 1> partial;
  };
  test::Buffer<int> out(4 * 32);
  launch_with<Storage>(kFour, [&](Storage& shared) {
    const bool first = thread_index() == 0;
    if (first) shared.partial[0] = 0;
    ptx::cluster_sync();
    int total = 0;
    for (int round = 0; round < 2; ++round) {
      if (first) shared.partial[0] = cluster_rank() + 1 + round;
      switch (bug) {
        case ReduceBug::kBlockBarrier: ptx::barrier_sync(); break;
        case ReduceBug::kRelaxedArrive:
          ptx::cluster_arrive_relaxed();
          ptx::cluster_wait();
          break;
        default: ptx::cluster_sync();
      }
      for (int rank = 0; rank < 4; ++rank) {
        total += ptx::ld_shared_cluster<int>(ptx::map_shared_rank(shared.partial.pointer(), rank));
      }
      if (bug != ReduceBug::kNoBarrierBetweenRounds) ptx::cluster_sync();
    }
    ptx::cluster_sync();
    thread::store(out.data() + block_index() * 32 + thread_index(), total);
  });
  return equal(out, [](int) { return 10 + 14; });
}
TEST(ClusterRace, BarrierOfTheBlockAlone) {
  expect_planted({Fault::kRace}, cluster_reduce, ReduceBug::kBlockBarrier);
}
TEST(ClusterRace, RelaxedArrivalPassesNothingOn) {
  expect_planted({Fault::kRace}, cluster_reduce, ReduceBug::kRelaxedArrive);
}
TEST(ClusterRace, SecondRoundOverTheFirst) {
  expect_planted({Fault::kRace}, cluster_reduce, ReduceBug::kNoBarrierBetweenRounds);
}

enum class HaloBug { kNone, kNoWait, kOverwritten };

// A stencil: each block pushes its edge into its neighbour's halo. Planted: the halo is read with
// no barrier behind the push; or pushed again while the neighbour still reads.
Result halo_exchange(HaloBug bug) {
  struct Storage {
    SharedArray<float, 34> x;  // halo, 32 elements, halo
  };
  test::Buffer<float> out(4 * 32);
  launch_with<Storage>(kFour, [&](Storage& shared) {
    const int me = thread_index();
    const int rank = cluster_rank();
    shared.x[me + 1] = static_cast<float>(rank * 32 + me);
    if (me < 2) shared.x[me * 33] = 0.0F;
    ptx::cluster_sync();
    for (int step = 0; step < 2; ++step) {
      const float mine = shared.x[me + 1];
      if (me == 0 && rank > 0) {
        ptx::st_shared_cluster(ptx::map_shared_rank(shared.x.pointer(33), rank - 1), mine);
      }
      if (me == 31 && rank < 3) {
        ptx::st_shared_cluster(ptx::map_shared_rank(shared.x.pointer(0), rank + 1), mine);
      }
      if (bug == HaloBug::kNoWait) {
        ptx::barrier_sync();
      } else {
        ptx::cluster_sync();
      }
      const float sum = shared.x[me] + shared.x[me + 1] + shared.x[me + 2];
      if (bug == HaloBug::kOverwritten) {
        ptx::barrier_sync();
      } else {
        ptx::cluster_sync();
      }
      shared.x[me + 1] = sum;
      ptx::barrier_sync();
    }
    ptx::cluster_sync();
    thread::store(out.data() + rank * 32 + me, float{shared.x[me + 1]});
  });
  const auto once = [](int i) {  // the sum of three neighbours, zeros outside
    return (i > 0 ? i - 1 : 0) + i + (i < 127 ? i + 1 : 0);
  };
  return equal(out, [&](int i) {
    return (i > 0 ? once(i - 1) : 0) + once(i) + (i < 127 ? once(i + 1) : 0);
  });
}
TEST(ClusterRace, HaloReadTooEarly) {
  expect_planted({Fault::kRace}, halo_exchange, HaloBug::kNoWait);
}
TEST(ClusterRace, HaloWrittenTooEarly) {
  expect_planted({Fault::kRace}, halo_exchange, HaloBug::kOverwritten);
}

enum class ArriveBug { kNone, kScopeOfTheBlock, kBeforeTheStore, kOnOwnBarrier };

// Threads of block 1 store into block 0 and arrive at its mbarrier, where block 0 waits. Planted:
// an arrival that passes memory on within its own block only; an arrival ahead of the store; a
// reader that waits for its own block's threads.
Result remote_arrival(ArriveBug bug) {
  struct Storage {
    SharedArray<int, 64> inbox;
    ptx::Mbarrier full;
    ptx::Mbarrier own;
  };
  test::Buffer<int> out(64);
  launch_with<Storage>(kPair, [&](Storage& shared) {
    const int me = thread_index();
    shared.inbox[me] = 0;
    if (me == 0) {
      ptx::mbarrier_init(shared.full, 64);
      ptx::mbarrier_init(shared.own, 64);
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    if (cluster_rank() == 1) {
      const auto store = [&] {
        ptx::st_shared_cluster(ptx::map_shared_rank(shared.inbox.pointer(me), 0), me);
      };
      if (bug != ArriveBug::kBeforeTheStore) store();
      if (bug == ArriveBug::kScopeOfTheBlock) {
        ptx::mbarrier_arrive_cluster<Scope::kCta>(shared.full, 0);
      } else {
        ptx::mbarrier_arrive_cluster(shared.full, 0);
      }
      if (bug == ArriveBug::kBeforeTheStore) store();
    } else {
      ptx::mbarrier_arrive(shared.own);
      ptx::mbarrier_wait_parity<Scope::kCluster>(
          bug == ArriveBug::kOnOwnBarrier ? shared.own : shared.full, 0);
      thread::store(out.data() + me, int{shared.inbox[63 - me]});
    }
    ptx::cluster_sync();
  });
  return equal(out, [](int i) { return 63 - i; });
}
TEST(ClusterRace, ArrivalOfTheBlocksScope) {
  expect_planted({Fault::kRace}, remote_arrival, ArriveBug::kScopeOfTheBlock);
}
TEST(ClusterRace, ArrivalBeforeTheRemoteStore) {
  expect_planted({Fault::kRace}, remote_arrival, ArriveBug::kBeforeTheStore);
}
TEST(ClusterRace, WaitOnTheWrongBarrier) {
  expect_planted({Fault::kRace}, remote_arrival, ArriveBug::kOnOwnBarrier);
}

enum class AsyncBug { kNone, kOneThreadWaits, kInboxReused };

// st.async into the other block, in two rounds. Planted: one thread waits and the others read; or
// the second round is sent before the other block has read the first.
Result async_exchange(AsyncBug bug) {
  struct Storage {
    SharedArray<int, 64, 128> inbox;
    ptx::Mbarrier full;
  };
  test::Buffer<int> out(2 * 64);
  launch_with<Storage>(kPair, [&](Storage& shared) {
    const int me = thread_index();
    const int other = 1 - cluster_rank();
    if (me == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    int sum = 0;
    for (int round = 0; round < 2; ++round) {
      if (me == 0) ptx::mbarrier_arrive_expect_tx(shared.full, 256);
      ptx::st_async(ptx::map_shared_rank(shared.inbox.pointer(me), other), 10 * round + me,
                    ptx::map_shared_rank(&shared.full, other));
      if (bug != AsyncBug::kOneThreadWaits || me == 0) {
        ptx::mbarrier_wait_parity<Scope::kCluster>(shared.full, static_cast<uint32_t>(round));
      }
      sum += shared.inbox[63 - me];
      if (bug == AsyncBug::kInboxReused) {
        ptx::barrier_sync();
      } else {
        ptx::cluster_sync();
      }
    }
    ptx::cluster_sync();
    thread::store(out.data() + block_index() * 64 + me, sum);
  });
  return equal(out, [](int i) { return 10 + 2 * (63 - i % 64); });
}
TEST(ClusterRace, OneThreadWaitsForStAsync) {
  expect_planted(kRaceOrCopy, async_exchange, AsyncBug::kOneThreadWaits);
}
TEST(ClusterRace, InboxReused) {
  // More bytes than the phase expects may be what is seen first.
  expect_planted(kRaceOrCopy, async_exchange, AsyncBug::kInboxReused);
}

// A ring of two stages that both blocks share by multicast: block 0 loads for both. Planted: it
// waits for its own consumers only, and not for those of the other block.
Result multicast_ring(bool broken) {
  constexpr int kStages = 2;
  constexpr int kSteps = 6;
  struct Storage {
    SharedArray<float, kStages * 32, 128> stages;
    ptx::Mbarrier full[kStages];
    ptx::Mbarrier empty[kStages];
  };
  test::Buffer<float> in(filled<float>(kSteps * 32, [](int i) { return i; }));
  test::Buffer<float> out(2 * 32);
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(in.data(), kSteps, 32, 32, 1, 32, ptx::Swizzle::kNone);
  launch_with<Storage>(kPair, [&](Storage& shared) {
    if (thread_index() == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        ptx::mbarrier_init(shared.full[stage], 1);
        ptx::mbarrier_init(shared.empty[stage], broken ? 1 : 2);
      }
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    const int lane = lane_index();
    if (warp_index() == 1) {
      if (lane == 0) {
        for (int step = 0; step < kSteps; ++step) {
          const int stage = step % kStages;
          const auto parity = static_cast<uint32_t>(step / kStages & 1);
          // Each block expects its own copy of the box, once its own consumers are done.
          if (cluster_rank() == 0) {
            ptx::mbarrier_wait_parity<Scope::kCluster>(shared.empty[stage], parity ^ 1);
            ptx::mbarrier_arrive_expect_tx(shared.full[stage], 128);
            ptx::tensor_load_2d_multicast(shared.stages.pointer(stage * 32), map,
                                          shared.full[stage], 0, step, 3);
          } else {
            ptx::mbarrier_wait_parity(shared.empty[stage], parity ^ 1);
            ptx::mbarrier_arrive_expect_tx(shared.full[stage], 128);
          }
        }
      }
    } else {
      float sum = 0;
      for (int step = 0; step < kSteps; ++step) {
        const int stage = step % kStages;
        ptx::mbarrier_wait_parity(shared.full[stage], static_cast<uint32_t>(step / kStages & 1));
        sum += shared.stages[stage * 32 + 31 - lane];
        ptx::syncwarp();
        if (lane == 0) {
          if (broken) {
            ptx::mbarrier_arrive(shared.empty[stage]);
          } else {  // to both blocks: either's copy lands here
            for (int rank = 0; rank < 2; ++rank) {
              ptx::mbarrier_arrive_cluster<Scope::kCta>(shared.empty[stage], rank);
            }
          }
        }
      }
      thread::store(out.data() + block_index() * 32 + lane, sum);
    }
    ptx::cluster_sync();
  });
  return equal(out, [](int i) { return 32 * 15 + 6 * (31 - i % 32); });
}
TEST(ClusterRace, MulticastOverTheOtherBlocksReads) { expect_planted(kRaceOrCopy, multicast_ring); }

}  // namespace
}  // namespace ws::emulator
