#include "warpsmith/ptx/cluster.hpp"

#include "tests/run.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// A value of 4, 8 or 16 bytes.
template <int kWords>
struct alignas(4 * kWords) Words {
  uint32_t word[kWords];
};

// Every block gives a value to its right neighbour and takes one from its left.
template <int kWords>
struct Neighbours {
  static constexpr int kThreads = 64;
  static constexpr Arch kArch = Arch::kSm90;
  using Value = Words<kWords>;
  struct Arguments {
    uint32_t* given;
    uint32_t* taken;
  };
  struct SharedStorage {
    SharedArray<Value, kThreads> inbox;
    SharedArray<Value, kThreads> offer;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int me = thread_index();
    const int right = (cluster_rank() + 1) % cluster_size();
    const int left = (cluster_rank() + cluster_size() - 1) % cluster_size();
    Value value;
    for (int i = 0; i < kWords; ++i) {
      value.word[i] = static_cast<uint32_t>(block_index() * 10000 + me * 10 + i);
    }
    shared.offer[me] = value;
    ptx::cluster_sync();
    ptx::st_shared_cluster(ptx::map_shared_rank(shared.inbox.pointer(me), right), value);
    const auto taken =
        ptx::ld_shared_cluster<Value>(ptx::map_shared_rank(shared.offer.pointer(me), left));
    ptx::cluster_arrive();
    const int64_t at = (block_index() * kThreads + me) * kWords;
    for (int i = 0; i < kWords; ++i) thread::store(a.taken + at + i, taken.word[i]);
    ptx::cluster_wait();
    const Value given = shared.inbox[me];
    for (int i = 0; i < kWords; ++i) thread::store(a.given + at + i, given.word[i]);
  }
};

template <int kWords>
void neighbours() {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    for (const int cluster : {1, 2, 8}) {
      constexpr int kBlocks = 8;
      test::Buffer<uint32_t> given(kBlocks * 64 * kWords);
      test::Buffer<uint32_t> taken(kBlocks * 64 * kWords);
      test::run<Neighbours<kWords>>({.blocks = kBlocks, .threads = 64, .cluster = cluster},
                                    {given.data(), taken.data()});
      for (size_t i = 0; i < given.size(); ++i) {
        const auto block = static_cast<int>(i) / (64 * kWords);
        const int left = block / cluster * cluster + (block % cluster + cluster - 1) % cluster;
        const auto rest = static_cast<int>(i) % (64 * kWords);
        const auto expected =
            static_cast<uint32_t>(left * 10000 + rest / kWords * 10 + rest % kWords);
        ASSERT_EQ(given[i], expected) << i;
        ASSERT_EQ(taken[i], expected) << i;
      }
    }
  });
}
TEST(Cluster, NeighboursExchange4Bytes) { neighbours<1>(); }
TEST(Cluster, NeighboursExchange8Bytes) { neighbours<2>(); }
TEST(Cluster, NeighboursExchange16Bytes) { neighbours<4>(); }

// Block 0 gathers a value from every thread of the cluster, by st.async.
template <int kWords>
struct Gather {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  using Value = Words<kWords>;
  struct Arguments {
    uint32_t* out;
  };
  struct SharedStorage {
    SharedArray<Value, kThreads * 4> slots;
    ptx::Mbarrier barrier;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int me = cluster_rank() * kThreads + thread_index();
    if (thread_index() == 0 && cluster_rank() == 0) {
      ptx::mbarrier_init(shared.barrier, 1);
      ptx::mbarrier_arrive_expect_tx(
          shared.barrier, static_cast<uint32_t>(sizeof(Value)) * kThreads * cluster_size());
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    Value value;
    for (int i = 0; i < kWords; ++i) value.word[i] = static_cast<uint32_t>(me * 10 + i);
    ptx::st_async(ptx::map_shared_rank(shared.slots.pointer(me), 0), value,
                  ptx::map_shared_rank(&shared.barrier, 0));
    if (cluster_rank() == 0) {
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.barrier, 0);
      for (int i = thread_index(); i < kThreads * cluster_size(); i += kThreads) {
        const Value got = shared.slots[i];
        for (int w = 0; w < kWords; ++w) thread::store(a.out + i * kWords + w, got.word[w]);
      }
    }
    ptx::cluster_sync();
  }
};

template <int kWords>
void gather() {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<uint32_t> out(4 * 32 * kWords);
    test::run<Gather<kWords>>({.blocks = 4, .threads = 32, .cluster = 4}, {out.data()});
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], i / kWords * 10 + i % kWords);
    }
  });
}
TEST(Cluster, GathersAsynchronouslyBy4Bytes) { gather<1>(); }
TEST(Cluster, GathersAsynchronouslyBy8Bytes) { gather<2>(); }
TEST(Cluster, GathersAsynchronouslyBy16Bytes) { gather<4>(); }

// Threads that have left do not hold the cluster's barrier up.
struct EarlyLeavers {
  static constexpr int kThreads = 64;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    if (warp_index() == 1) return;
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
    ptx::cluster_sync();
    thread::store(a.out + block_index() * 32 + lane_index(), 1);
  }
};

TEST(Cluster, BarrierCountsRunningThreads) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<int> out(4 * 32);
    test::run<EarlyLeavers>({.blocks = 4, .threads = 64, .cluster = 2}, {out.data()});
    for (const int done : out) EXPECT_EQ(done, 1);
  });
}

// Elections: of whole warps, of parts, twice with the same mask.
struct Elections {
  static constexpr int kThreads = 64;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    int* elected;  // [3, kThreads]
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto elect = [&](int row, uint32_t mask) {
      thread::store(a.elected + row * kThreads + thread_index(),
                    static_cast<int>(ptx::elect_sync(mask)));
    };
    elect(0, kFullMask);
    elect(1, kFullMask);
    if (lane_index() % 3 == 1) elect(2, 0x92492492u);  // bits 1, 4, 7, ... 31
  }
};

TEST(Cluster, ElectsOneLane) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    test::Buffer<int> elected(3 * 64);
    test::run<Elections>({.threads = 64}, {elected.data()});
    for (size_t warp = 0; warp < 2; ++warp) {
      int count[3] = {};
      for (size_t lane = 0; lane < 32; ++lane) {
        const size_t at = warp * 32 + lane;
        for (size_t row = 0; row < 3; ++row) count[row] += elected[row * 64 + at];
        EXPECT_EQ(elected[at], elected[64 + at]) << "the leader of a mask is always the same";
        EXPECT_TRUE(elected[128 + at] == 0 || lane % 3 == 1);
      }
      for (const int n : count) EXPECT_EQ(n, 1);
    }
  });
}

// Registers move from one warpgroup to the other and back.
struct Registers {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;  // they begin with 128
  static constexpr Arch kArch = Arch::kSm90a;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    if (warp_index() < 4) {
      ptx::setmaxnreg_dec<40>();
      thread::store(a.out + thread_index(), 1);
    } else {
      ptx::setmaxnreg_inc<216>();
      thread::store(a.out + thread_index(), 2);
    }
  }
};

TEST(Cluster, WarpgroupsTradeRegisters) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90a);
    test::Buffer<int> out(256);
    test::run<Registers>({.threads = 256}, {out.data()});
    for (size_t i = 0; i < 256; ++i) EXPECT_EQ(out[i], i < 128 ? 1 : 2);
  });
}

}  // namespace
}  // namespace ws
