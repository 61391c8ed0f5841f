// Flags between blocks: relaxed with fences, and acquire with release.
#include "warpsmith/ptx/flag.hpp"

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/store_relaxed.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

using ptx::Scope;

// Each block waits for the one before it, adds its number to what that one has left, and raises its
// own flag. T: of the flags.
template <class T, bool kFences>
struct Relay {
  static constexpr int kThreads = 64;
  struct Arguments {
    T* flags;  // one a block, zero
    int* sums;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t block = block_index();
    int before = 0;
    if (block > 0) {
      if (thread_index() == 0) {
        if constexpr (kFences) {
          while (ptx::ld_relaxed<Scope::kGpu>(a.flags + block - 1) == T{0}) {
          }
          ptx::fence_acq_rel<Scope::kGpu>();
        } else {
          while (ptx::ld_acquire<Scope::kGpu>(a.flags + block - 1) == T{0}) {
          }
        }
      }
      ptx::barrier_sync();
      before = thread::load(a.sums + (block - 1) * kThreads + thread_index());
    }
    thread::store(a.sums + block * kThreads + thread_index(), before + static_cast<int>(block));
    ptx::barrier_sync();
    if (thread_index() == 0) {
      if constexpr (kFences) {
        ptx::fence_acq_rel<Scope::kGpu>();
        ptx::st_relaxed<Scope::kGpu>(a.flags + block, T{1});
      } else {
        ptx::st_release<Scope::kGpu>(a.flags + block, T{1});
      }
    }
  }
};

template <class T, bool kFences>
void test_relay() {
  constexpr int kBlocks = 8;
  using Kernel = Relay<T, kFences>;
  test::Buffer<T> flags(kBlocks);
  test::Buffer<int> sums(kBlocks * Kernel::kThreads);
  test::run<Kernel>({.blocks = kBlocks, .threads = Kernel::kThreads}, {flags.data(), sums.data()});
  for (int i = 0; i < kBlocks * Kernel::kThreads; ++i) {
    const int block = i / Kernel::kThreads;
    ASSERT_EQ(sums[static_cast<size_t>(i)], block * (block + 1) / 2);
  }
}

TEST(Flag, PassesOnWhatTheWriterDid) {
  test::in_every_order([] {
    test_relay<uint32_t, true>();
    test_relay<uint32_t, false>();
    test_relay<uint64_t, true>();
    test_relay<uint64_t, false>();
    test_relay<float, false>();
  });
}

// All threads of all blocks store to one place.
template <class T>
struct StoreToOne {
  static constexpr int kThreads = 64;
  struct Arguments {
    T* one;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    ptx::st_global_relaxed(a.one, T(static_cast<float>(block_index() * kThreads + thread_index())));
  }
};

template <class T>
void test_one_stands() {
  test::Buffer<T> one(2);
  one[0] = one[1] = T(-1.0f);
  test::run<StoreToOne<T>>({.blocks = 4, .threads = 64}, {one.data()});
  EXPECT_GE(static_cast<float>(one[0]), 0);
  EXPECT_LT(static_cast<float>(one[0]), 256);
  EXPECT_EQ(static_cast<float>(one[1]), -1);
}

TEST(Flag, RelaxedStoresToOnePlaceDoNotRace) {
  test::in_every_order([] {
    test_one_stands<half>();
    test_one_stands<bf16>();
    test_one_stands<float>();
    test_one_stands<double>();
  });
}

}  // namespace
}  // namespace ws
