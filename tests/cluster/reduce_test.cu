#include "warpsmith/cluster/reduce.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Sums over the cluster, several calls in a row: both sets of slots go through several phases.
template <int kThreads_>
struct Sums {
  static constexpr int kThreads = kThreads_;
  static constexpr int kCalls = 5;
  static constexpr Arch kArch = Arch::kSm90;
  using Arguments = int32_t*;  // [kCalls, blocks, kThreads]
  using Reduce = cluster::AllReduce<int32_t, kThreads>;
  struct SharedStorage {
    typename Reduce::Storage sum;
  };
  __device__ void operator()(SharedStorage& shared, int32_t* const& out) const {
    Reduce all_reduce(shared.sum);
    const auto global = static_cast<int32_t>(block_index() * kThreads + thread_index());
    const auto all = static_cast<int32_t>(grid_blocks() * kThreads);
    for (int call = 0; call < kCalls; ++call) {
      const int32_t sum = all_reduce(global + call, 0, [](int32_t a, int32_t b) { return a + b; });
      thread::store(out + call * all + global, Vec<int32_t, 1>{{sum}});
    }
    all_reduce.finish();
  }
};

// The same with a send ahead of each receive: what work between the two is to cover.
struct SumsAhead {
  static constexpr int kThreads = 64;
  static constexpr int kCalls = 11;
  static constexpr Arch kArch = Arch::kSm90;
  using Arguments = int32_t*;  // [kCalls, blocks, kThreads]
  using Reduce = cluster::AllReduce<int32_t, kThreads, 1, 1>;
  struct SharedStorage {
    typename Reduce::Storage sum;
  };
  __device__ void operator()(SharedStorage& shared, int32_t* const& out) const {
    Reduce all_reduce(shared.sum);
    const auto plus = [](int32_t a, int32_t b) { return a + b; };
    const auto global = static_cast<int32_t>(block_index() * kThreads + thread_index());
    const auto all = static_cast<int32_t>(grid_blocks() * kThreads);
    const auto send = [&](int call) {
      all_reduce.send_warps(warp::all_reduce(global + call, plus), plus);
    };
    send(0);
    for (int call = 0; call < kCalls; ++call) {
      if (call + 1 < kCalls) send(call + 1);
      const int32_t sum = all_reduce.receive(0, plus);
      thread::store(out + call * all + global, Vec<int32_t, 1>{{sum}});
    }
    all_reduce.finish();
  }
};

template <class Kernel>
void check_sums() {
  WS_REQUIRE_ARCH(Arch::kSm90);
  constexpr int kThreads = Kernel::kThreads;
  SCOPED_TRACE(kThreads);
  test::in_every_order([] {
    for (const int cluster : {1, 2, 3, 8}) {  // two clusters each
      const int blocks = 2 * cluster;
      const int all = blocks * kThreads;
      test::Buffer<int32_t> out(static_cast<size_t>(Kernel::kCalls * all));
      test::run<Kernel>({.blocks = blocks, .threads = kThreads, .cluster = cluster}, out.data());
      const int mine = cluster * kThreads;
      for (int call = 0; call < Kernel::kCalls; ++call) {
        for (int t = 0; t < all; ++t) {
          const int first = t / mine * mine;
          ASSERT_EQ(out[static_cast<size_t>(call * all + t)],
                    mine * first + mine * (mine - 1) / 2 + call * mine)
              << "cluster of " << cluster << " call " << call << " thread " << t;
        }
      }
    }
  });
}

TEST(ClusterAllReduce, SumsOverOneWarpEach) { check_sums<Sums<32>>(); }
TEST(ClusterAllReduce, SumsOverSeveralWarpsEach) { check_sums<Sums<128>>(); }
TEST(ClusterAllReduce, SumsThatAreSentAhead) { check_sums<SumsAhead>(); }

}  // namespace
}  // namespace ws
