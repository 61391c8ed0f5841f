#include "warpsmith/block/scan.hpp"

#include "tests/run.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Scans (warp + call) over the block, several calls in a row: slots must not be reused too early.
template <int kThreads_>
struct Scans {
  static constexpr int kThreads = kThreads_;
  static constexpr int kCalls = 5;
  using Arguments = int32_t*;  // [kCalls, kThreads, 2]
  using Scan = block::ScanOfWarps<int32_t, kThreads>;
  struct SharedStorage {
    typename Scan::Storage totals;
  };
  __device__ void operator()(SharedStorage& shared, int32_t* const& out) const {
    Scan scan(shared.totals);
    for (int call = 0; call < kCalls; ++call) {
      const auto [before, total] =
          scan(warp_index() + call, 0, [](int32_t a, int32_t b) { return a + b; });
      thread::store(out + 2 * (call * kThreads + thread_index()), Vec<int32_t, 2>{{before, total}});
    }
  }
};

template <int kThreads>
void check() {
  SCOPED_TRACE(kThreads);
  test::in_every_order([] {
    test::Buffer<int32_t> out(size_t{2} * Scans<kThreads>::kCalls * kThreads);
    test::run<Scans<kThreads>>({.blocks = 1, .threads = kThreads}, out.data());
    const auto sum = [](int warps, int call) { return warps * (warps - 1) / 2 + warps * call; };
    for (int call = 0; call < Scans<kThreads>::kCalls; ++call) {
      for (int t = 0; t < kThreads; ++t) {
        const int32_t* got = out.data() + ptrdiff_t{2} * (call * kThreads + t);
        ASSERT_EQ(got[0], sum(t / kWarpSize, call)) << "call " << call << " thread " << t;
        ASSERT_EQ(got[1], sum(kThreads / kWarpSize, call)) << "call " << call << " thread " << t;
      }
    }
  });
}

TEST(BlockScan, OfWarpsCallAfterCall) {
  check<32>();
  check<64>();
  check<256>();
  check<1024>();
}

}  // namespace
}  // namespace ws
