#include "warpsmith/block/reduce.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Sums (thread + call) over the block, several calls in a row: slots must not be reused too early.
template <int kThreads_>
struct Sums {
  static constexpr int kThreads = kThreads_;
  static constexpr int kCalls = 5;
  using Arguments = int32_t*;  // [kCalls, kThreads]
  using Reduce = block::AllReduce<int32_t, kThreads>;
  struct SharedStorage {
    typename Reduce::Storage sum;
  };
  __device__ void operator()(SharedStorage& shared, int32_t* const& out) const {
    Reduce all_reduce(shared.sum);
    for (int call = 0; call < kCalls; ++call) {
      const int32_t sum =
          all_reduce(thread_index() + call, [](int32_t a, int32_t b) { return a + b; });
      thread::store(out + call * kThreads + thread_index(), Vec<int32_t, 1>{{sum}});
    }
  }
};

template <int kThreads>
void check() {
  SCOPED_TRACE(kThreads);
  test::in_every_order([] {
    test::Buffer<int32_t> out(Sums<kThreads>::kCalls * kThreads);
    test::run<Sums<kThreads>>({.blocks = 1, .threads = kThreads}, out.data());
    for (int call = 0; call < Sums<kThreads>::kCalls; ++call) {
      for (int t = 0; t < kThreads; ++t) {
        ASSERT_EQ(out[static_cast<size_t>(call * kThreads + t)],
                  kThreads * (kThreads - 1) / 2 + call * kThreads)
            << "call " << call << " thread " << t;
      }
    }
  });
}

TEST(BlockAllReduce, SumsCallAfterCall) {
  check<32>();
  check<64>();
  check<256>();
  check<1024>();
}

// Sums over a block whose threads the launch counts.
struct SumOfLaunch {
  static constexpr int kThreads = 1024;
  using Arguments = int32_t*;  // [threads]
  using Reduce = block::AllReduceOfLaunch<int32_t, kThreads>;
  struct SharedStorage {
    typename Reduce::Storage sum;
  };
  __device__ void operator()(SharedStorage& shared, int32_t* const& out) const {
    const auto plus = [](int32_t a, int32_t b) { return a + b; };
    const int32_t warp = warp::all_reduce(thread_index(), plus);
    thread::store(out + thread_index(),
                  Vec<int32_t, 1>{{Reduce::of_warps(shared.sum, warp, 0, plus)}});
  }
};

TEST(BlockAllReduce, SumsOverAnyNumberOfWarps) {
  test::in_every_order([] {
    for (const int threads : {32, 96, 320, 1024}) {
      test::Buffer<int32_t> out(static_cast<size_t>(threads));
      test::run<SumOfLaunch>({.blocks = 1, .threads = threads}, out.data());
      for (const int32_t sum : out) ASSERT_EQ(sum, threads * (threads - 1) / 2) << threads;
    }
  });
}

}  // namespace
}  // namespace ws
