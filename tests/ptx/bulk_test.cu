#include "warpsmith/ptx/bulk.hpp"

#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// A block moves rows of `bytes` bytes through two buffers: in by bulk loads, every byte plus one,
// out by bulk stores.
struct AddOne {
  static constexpr int kThreads = 64;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kMostBytes = 1024;
  struct Arguments {
    const uint8_t* from;
    uint8_t* to;
    int rows;
    int bytes;
  };
  struct SharedStorage {
    SharedArray<uint8_t, 2 * kMostBytes, 128> buffers;
    ptx::Mbarrier full[2];
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      for (auto& barrier : shared.full) ptx::mbarrier_init(barrier, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    for (int row = 0; row < a.rows; ++row) {
      const int buffer = row % 2;
      const int first = buffer * kMostBytes;
      if (thread_index() == 0) {
        // The store from this buffer two rows ago must have read it; the last one may still.
        ptx::bulk_wait_group_read<1>();
        ptx::mbarrier_arrive_expect_tx(shared.full[buffer], static_cast<uint32_t>(a.bytes));
        ptx::bulk_load(shared.buffers.pointer(first), a.from + row * a.bytes,
                       static_cast<uint32_t>(a.bytes), shared.full[buffer]);
      }
      ptx::mbarrier_wait_parity(shared.full[buffer], row / 2 & 1);
      for (int i = thread_index(); i < a.bytes; i += block_threads()) {
        shared.buffers[first + i] = static_cast<uint8_t>(shared.buffers[first + i] + 1);
      }
      ptx::fence_proxy_async();
      ptx::barrier_sync();
      if (thread_index() == 0) {
        ptx::bulk_store(a.to + row * a.bytes, shared.buffers.pointer(first),
                        static_cast<uint32_t>(a.bytes));
        ptx::bulk_commit_group();
      }
    }
    if (thread_index() == 0) ptx::bulk_wait_group<0>();
  }
};

TEST(Bulk, LoadsAndStores) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    for (const int bytes : {16, 48, 1024}) {
      for (const int rows : {1, 2, 7}) {
        const auto size = static_cast<size_t>(rows * bytes);
        test::Buffer<uint8_t> from(size);
        std::iota(from.begin(), from.end(), uint8_t{3});
        test::Buffer<uint8_t> to(size + 16);
        to[size] = 77;
        test::run<AddOne>({.threads = 64}, {from.data(), to.data(), rows, bytes});
        for (size_t i = 0; i < size; ++i) {
          ASSERT_EQ(to[i], static_cast<uint8_t>(from[i] + 1)) << i;
        }
        EXPECT_EQ(to[size], 77);
      }
    }
  });
}

}  // namespace
}  // namespace ws
