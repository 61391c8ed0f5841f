#include "warpsmith/ptx/bulk.hpp"

#include <algorithm>
#include <numeric>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk_add.hpp"
#include "warpsmith/ptx/prefetch.hpp"
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

// Every block passes what it has on to its right neighbour, `rounds` times, from a buffer that it
// writes again once the neighbour has sent word.
struct PassOn {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    int* out;
    int rounds;
  };
  struct SharedStorage {
    SharedArray<int, kThreads, 128> own;
    SharedArray<int, kThreads, 128> from_left;
    ptx::Mbarrier full;
    ptx::Mbarrier read;  // what this block has sent
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int lane = thread_index();
    const int size = cluster_size();
    const int right = (cluster_rank() + 1) % size;
    const int left = (cluster_rank() + size - 1) % size;
    if (lane == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::mbarrier_init(shared.read, kThreads);
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
    int value = static_cast<int>(block_index()) * 100 + lane;
    for (int round = 0; round < a.rounds; ++round) {
      const auto parity = static_cast<uint32_t>(round & 1);
      shared.own[lane] = value;
      ptx::fence_proxy_async();
      ptx::syncwarp();
      if (lane == 0) {
        ptx::mbarrier_arrive_expect_tx(shared.full, kThreads * sizeof(int));
        ptx::bulk_copy_cluster(ptx::map_shared_rank(shared.from_left.pointer(), right),
                               shared.own.pointer(), kThreads * sizeof(int),
                               ptx::map_shared_rank(&shared.full, right));
      }
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.full, parity);
      value = shared.from_left[lane] + 1;
      ptx::fence_proxy_async();
      ptx::mbarrier_arrive_cluster(shared.read, left);
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.read, parity);
    }
    ptx::cluster_sync();
    thread::store(a.out + block_index() * kThreads + lane, value);
  }
};

TEST(Bulk, CopiesFromBlockToBlock) {
  test::in_every_order([] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    for (const int cluster : {2, 4}) {
      constexpr int kRounds = 3;
      test::Buffer<int> out(4 * 32);
      test::run<PassOn>({.blocks = 4, .threads = 32, .cluster = cluster}, {out.data(), kRounds});
      for (int i = 0; i < 128; ++i) {
        const int block = i / 32;
        const int from =
            block / cluster * cluster + (block % cluster + 3 * cluster - kRounds) % cluster;
        ASSERT_EQ(out[static_cast<size_t>(i)], from * 100 + i % 32 + kRounds) << i;
      }
    }
  });
}

// ---- Additions --------------------------------------------------------------------------------

// Every block adds `from`, brought by a bulk load, to `to`; or stores it there, which is wrong.
template <class T, bool kStores = false>
struct AddLine {
  static constexpr int kThreads = 1;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kMost = 512;
  struct Arguments {
    const T* from;
    T* to;
    int count;
  };
  struct SharedStorage {
    SharedArray<T, kMost, 128> line;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto bytes = static_cast<uint32_t>(a.count * sizeof(T));
    ptx::mbarrier_init(shared.full, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(shared.full, bytes);
    ptx::bulk_load(shared.line.pointer(), a.from, bytes, shared.full);
    ptx::mbarrier_wait_parity(shared.full, 0);
    if (kStores && block_index() == 0) {
      ptx::bulk_store(a.to, shared.line.pointer(), bytes);
    } else {
      ptx::bulk_add(a.to, shared.line.pointer(), bytes);
    }
    ptx::bulk_commit_group();
    ptx::bulk_wait_group_read<0>();
  }
};

// 5 blocks; each addition is rounded: half a unit in the last place stays away for ever, three
// quarters of one come each time.
template <class T>
void adds_lines(float unit) {
  test::in_every_order([&] {
    WS_REQUIRE_ARCH(Arch::kSm90);
    constexpr int kBlocks = 5;
    for (const int count : {8, 40, 512}) {
      const auto size = static_cast<size_t>(count);
      test::Buffer<T> from(size);
      test::Buffer<T> to(size + 8);
      for (size_t i = 0; i < size + 8; ++i) {
        if (i < size) {
          from[i] = from_float<T>(i % 3 == 0 ? unit / 2 : i % 3 == 1 ? unit * 0.75F : -2);
        }
        to[i] = from_float<T>(i % 3 == 2 ? static_cast<float>(i % 7) : 1);
      }
      test::run<AddLine<T>>({.blocks = kBlocks, .threads = 1}, {from.data(), to.data(), count});
      for (size_t i = 0; i < size + 8; ++i) {
        float expected = i % 3 == 2 ? static_cast<float>(i % 7) : 1;
        if (i < size && i % 3 == 1) expected += kBlocks * unit;
        if (i < size && i % 3 == 2) expected -= 2 * kBlocks;
        ASSERT_EQ(to_float(to[i]), expected) << i << " of " << count;
      }
    }
  });
}
TEST(Bulk, AddsF32) { adds_lines<float>(0x1p-23F); }
TEST(Bulk, AddsF16) { adds_lines<half>(0x1p-10F); }
TEST(Bulk, AddsBf16) { adds_lines<bf16>(0x1p-7F); }

// .noftz: what is subnormal stays.
TEST(Bulk, AddsSubnormalF16) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::Buffer<half> from(8);
  test::Buffer<half> to(8);
  std::ranges::fill(from, from_float<half>(0x1p-24F));
  std::ranges::fill(to, from_float<half>(0x1p-23F));
  test::run<AddLine<half>>({.threads = 1}, {from.data(), to.data(), 8});
  EXPECT_EQ(to_float(to[7]), 0x1.8p-23F);
}

#ifdef WS_EMULATED
TEST(Bulk, AdditionsThatAreWrong) {
  const std::string words = "cp.reduce.async.bulk.global.shared.add";
  test::Buffer<float> from(16);
  test::Buffer<float> to(16);
  std::ranges::fill(from, 1.0F);
  test::expect_fault<AddLine<float>>(emulator::Fault::kMisaligned, words, {.threads = 1},
                                     {from.data(), to.data() + 1, 8});
  test::expect_fault<AddLine<float, true>>(emulator::Fault::kRace, "races with the write",
                                           {.blocks = 2, .threads = 1},
                                           {from.data(), to.data(), 8});
}
#endif

// ---- Prefetches -------------------------------------------------------------------------------

struct Prefetch {
  static constexpr int kThreads = 1;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    const uint8_t* from;
    uint8_t* to;
    uint32_t bytes;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    ptx::bulk_prefetch(a.from, a.bytes);
    thread::store(a.to, thread::load(a.from));
  }
};

TEST(Bulk, PrefetchesChangeNothing) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::Buffer<uint8_t> from(64);
  from[16] = 5;
  test::Buffer<uint8_t> to(1);
  test::run<Prefetch>({.threads = 1}, {from.data() + 16, to.data(), 48});
  EXPECT_EQ(to[0], 5);
#ifdef WS_EMULATED
  const std::string words = "cp.async.bulk.prefetch.L2.global";
  test::expect_fault<Prefetch>(emulator::Fault::kMisaligned, words, {.threads = 1},
                               {from.data() + 8, to.data(), 16});
  test::expect_fault<Prefetch>(emulator::Fault::kMisaligned, words, {.threads = 1},
                               {from.data(), to.data(), 8});
#endif
}

}  // namespace
}  // namespace ws
