#include "warpsmith/ptx/mbarrier.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// All threads arrive and wait, phase after phase.
struct Phases {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    int* out;
    int phases;
  };
  struct SharedStorage {
    SharedArray<int, kThreads> numbers;
    ptx::Mbarrier barrier;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int me = thread_index();
    if (me == 0) ptx::mbarrier_init(shared.barrier, 128);
    ptx::barrier_sync();
    int value = me;
    for (int phase = 0; phase < a.phases; ++phase) {
      shared.numbers[me] = value;
      ptx::mbarrier_arrive(shared.barrier);
      ptx::mbarrier_wait_parity(shared.barrier, phase & 1);
      const int other = shared.numbers[(me + 1) % 128];
      ptx::barrier_sync();
      value = other;
    }
    thread::store(a.out + me, value);
    ptx::barrier_sync();
    if (me == 0) ptx::mbarrier_inval(shared.barrier);
  }
};

TEST(Mbarrier, PhasesFlip) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<int> out(128);
    test::run<Phases>({.threads = 128}, {out.data(), 7});
    for (int i = 0; i < 128; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], (i + 7) % 128);
  });
}

// What try_wait says of both parities before and after the first two phases.
struct Parities {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    int* answers;
  };
  struct SharedStorage {
    ptx::Mbarrier barrier;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() != 0) return;
    ptx::mbarrier_init(shared.barrier, 1);
    for (int phase = 0; phase < 3; ++phase) {
      for (uint32_t parity = 0; parity < 2; ++parity) {
        thread::store(a.answers + phase * 2 + parity,
                      static_cast<int>(ptx::mbarrier_try_wait_parity(shared.barrier, parity)));
      }
      ptx::mbarrier_arrive(shared.barrier);
    }
  }
};

TEST(Mbarrier, TryWaitTellsWhichPhaseIsComplete) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<int> answers(6);
    test::run<Parities>({.threads = 32}, {answers.data()});
    // Phase 0: parity 1, the one before, is complete. Then parity 0, then 1 again.
    EXPECT_EQ(std::vector<int>(answers.begin(), answers.end()),
              (std::vector<int>{0, 1, 1, 0, 0, 1}));
  });
}

// A ring of kStages buffers, one producing thread with bulk copies, one consuming warp.
struct Pipeline {
  static constexpr int kThreads = 64;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kStages = 3;
  struct Arguments {
    const int* from;
    int* sums;
    int steps;
    bool spin;  // wait by try_wait
  };
  struct SharedStorage {
    SharedArray<int, kStages * 32, 128> ring;
    ptx::Mbarrier full[kStages];
    ptx::Mbarrier empty[kStages];
  };
  __device__ static void wait(ptx::Mbarrier& barrier, uint32_t parity, bool spin) {
    if (spin) {
      while (!ptx::mbarrier_try_wait_parity(barrier, parity)) {
      }
    } else {
      ptx::mbarrier_wait_parity(barrier, parity);
    }
  }
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        ptx::mbarrier_init(shared.full[stage], 1);
        ptx::mbarrier_init(shared.empty[stage], 32);
      }
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() == 0) {
      if (lane_index() == 0) {
        for (int step = 0; step < a.steps; ++step) {
          const int stage = step % kStages;
          wait(shared.empty[stage], (step / kStages & 1) ^ 1, a.spin);
          if (step % 2 == 0) {
            ptx::mbarrier_arrive_expect_tx(shared.full[stage], 128);
          } else {  // the same in two steps
            ptx::mbarrier_expect_tx(shared.full[stage], 128);
            ptx::mbarrier_arrive(shared.full[stage]);
          }
          // Two copies on one phase.
          for (int half = 0; half < 2; ++half) {
            ptx::bulk_load(shared.ring.pointer(stage * 32 + half * 16),
                           a.from + step * 32 + half * 16, 64, shared.full[stage]);
          }
        }
      }
    } else {
      int sum = 0;
      for (int step = 0; step < a.steps; ++step) {
        const int stage = step % kStages;
        wait(shared.full[stage], step / kStages & 1, a.spin);
        sum += shared.ring[stage * 32 + 31 - lane_index()];
        ptx::mbarrier_arrive(shared.empty[stage]);
      }
      thread::store(a.sums + lane_index(), sum);
    }
    ptx::barrier_sync();
  }
};

TEST(Mbarrier, PipelineOfBulkCopies) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    for (const bool spin : {false, true}) {
      for (const int steps : {1, 3, 4, 20}) {
        test::Buffer<int> from(static_cast<size_t>(steps * 32));
        std::iota(from.begin(), from.end(), 0);
        test::Buffer<int> sums(32);
        test::run<Pipeline>({.threads = 64}, {from.data(), sums.data(), steps, spin});
        for (int lane = 0; lane < 32; ++lane) {
          int expected = 0;
          for (int step = 0; step < steps; ++step) expected += step * 32 + 31 - lane;
          EXPECT_EQ(sums[static_cast<size_t>(lane)], expected) << steps;
        }
      }
    }
  });
}

// Each block of a cluster waits for all others, by remote arrivals.
struct RemoteArrivals {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {
    ptx::Mbarrier barrier;
    SharedArray<int, 4> slots;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.barrier, static_cast<uint32_t>(cluster_size()));
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    if (lane_index() < cluster_size()) {
      const int rank = lane_index();
      ptx::st_shared_cluster(ptx::map_shared_rank(shared.slots.pointer(cluster_rank()), rank),
                             100 * cluster_rank() + rank);
      ptx::mbarrier_arrive_cluster(shared.barrier, rank);
    }
    ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.barrier, 0);
    if (lane_index() < cluster_size()) {
      thread::store(a.out + block_index() * 4 + lane_index(),
                    static_cast<int>(shared.slots[lane_index()]));
    }
    ptx::cluster_sync();
  }
};

TEST(Mbarrier, ArrivalsFromTheCluster) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<int> out(8 * 4);
    test::run<RemoteArrivals>({.blocks = 8, .threads = 32, .cluster = 4}, {out.data()});
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(out[static_cast<size_t>(i)], 100 * (i % 4) + i / 4 % 4);
    }
  });
}

}  // namespace
}  // namespace ws
