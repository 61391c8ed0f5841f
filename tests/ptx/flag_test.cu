// Flags between blocks: relaxed with fences, and acquire with release.
#include "warpsmith/ptx/flag.hpp"

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/store_relaxed.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/unmarked.hpp"

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

// Each block leaves numbers for the one before it, zeros among them, which waits for them, leaves
// zeros, and writes what it saw.
struct TellUnmarked {
  static constexpr int kThreads = 64;
  static constexpr int kBlocks = 6;
  static constexpr int kNumbers = 6;
  struct Arguments {
    float* left;  // kNumbers a thread, zero: fours, then twos
    float* seen;
    int skew;  // added to addresses
  };
  struct SharedStorage {};
  __host__ __device__ static float number(int block, int thread, int i) {
    return (block + thread + i) % 3 == 0 ? 0.0F
                                         : static_cast<float>(block * 1000 - thread * 10 + i);
  }
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const auto block = static_cast<int>(block_index());
    const int thread = thread_index();
    const auto fours = [&](int of) {
      return a.left + of * kThreads * kNumbers + thread * 4 + a.skew;
    };
    const auto twos = [&](int of) { return fours(of) + 4 * kThreads - 2 * thread; };
    Vec<float, 4> four;
    Vec<float, 2> two;
    for (int i = 0; i < 4; ++i) four[i] = number(block, thread, i);
    for (int i = 0; i < 2; ++i) two[i] = number(block, thread, 4 + i);
    thread::Unmarked::tell(twos(block), two);
    thread::Unmarked::tell(fours(block), four);
    const int behind = (block + 1) % kBlocks;
    bool are_there = false;
    while (!are_there) {
      are_there = true;
      four = thread::Unmarked::look<4>(fours(behind), are_there);
      two = thread::Unmarked::look<2>(twos(behind), are_there);
    }
    thread::Unmarked::clear<4>(fours(behind));
    thread::Unmarked::clear<2>(twos(behind));
    for (int i = 0; i < kNumbers; ++i) {
      thread::store(a.seen + (block * kThreads + thread) * kNumbers + i,
                    i < 4 ? four[i] : two[i - 4]);
    }
  }
};

TEST(Flag, NumbersAreTheirOwnMark) {
  using Kernel = TellUnmarked;
  test::in_every_order([] {
    constexpr int kAll = Kernel::kBlocks * Kernel::kThreads * Kernel::kNumbers;
    test::Buffer<float> left(kAll + 4);
    test::Buffer<float> seen(kAll);
    const Grid grid{.blocks = Kernel::kBlocks, .threads = Kernel::kThreads};
    test::run<Kernel>(grid, {left.data(), seen.data(), 0});
    for (int i = 0; i < kAll; ++i) {
      const int thread = i / Kernel::kNumbers % Kernel::kThreads;
      const int block = i / Kernel::kNumbers / Kernel::kThreads;
      ASSERT_EQ(seen[static_cast<size_t>(i)],
                Kernel::number((block + 1) % Kernel::kBlocks, thread, i % Kernel::kNumbers));
      ASSERT_EQ(std::bit_cast<uint32_t>(left[static_cast<size_t>(i)]), 0U);
    }
#ifdef WS_EMULATED
    test::expect_fault<Kernel>(emulator::Fault::kMisaligned, "st.relaxed", grid,
                               {left.data(), seen.data(), 1});
#endif
  });
}

}  // namespace
}  // namespace ws
