// wgmma of 8 and 32 bits, through the stages that the copy engine fills: K-major operands, each
// type.
#include <bit>
#include <random>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/operand_stage.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws {
namespace {

using ptx::Major;

// D = A B^T of one stage, A [64, K], B [N, K], and D stored by tile::WarpStore.
template <int N, class A, class B>
struct MultiplyStage {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90a;
  using Sum = ptx::WgmmaSum<A>;
  static constexpr int kDepth = 128 / static_cast<int>(sizeof(A));
  using StageA = tile::OperandStage<A, Major::kK, 64, kDepth, 1>;
  using StageB = tile::OperandStage<B, Major::kK, N, kDepth, 1>;
  using Store = tile::WarpStore<Sum, 2, 32>;
  struct Arguments {
    ptx::TensorMap a, b, d;
    Sum* plain;  // null: the copy engine stores D
    Sum start;   // added to each sum
    bool accumulate;
  };
  struct SharedStorage {
    SharedArray<A, StageA::kElements, 1024> a;
    SharedArray<B, StageB::kElements, 1024> b;
    SharedArray<Sum, 4 * Store::kElements, 1024> d;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (thread_index() == 0) {
      ptx::mbarrier_arrive_expect_tx(shared.full,
                                     StageA::kElements * sizeof(A) + StageB::kElements * sizeof(B));
      StageA::load(shared.a.pointer(), arguments.a, shared.full, 0, 0, {});
      StageB::load(shared.b.pointer(), arguments.b, shared.full, 0, 0, {});
    }
    ptx::mbarrier_wait_parity(shared.full, 0);
    Sum d[N / 2];
    for (Sum& sum : d) sum = arguments.start;
    const uint64_t a = StageA::descriptor(shared.a.pointer());
    const uint64_t b = StageB::descriptor(shared.b.pointer());
    ptx::wgmma_fence(d);
#pragma unroll
    for (int k = 0; k < StageA::kRow; k += StageA::kStep) {
      ptx::wgmma_32_bytes<N, A, B, Major::kK, Major::kK>(
          d, StageA::advance(a, 0, k), StageB::advance(b, 0, k), arguments.accumulate || k > 0);
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    Store store{shared.d.pointer(warp_index() * Store::kElements)};
    for (int column = 0; column < N; column += 32) {
      const int row = warp_index() * 16;
      if (arguments.plain == nullptr) {
        store.put(arguments.d, row, column, d + column / 2);
      } else {
        store.write(arguments.plain + row * N + column, N, 16, N - column, d + column / 2);
      }
    }
    store.finish();
  }
};

// Small numbers of each type, whose products and sums are exact.
template <class T>
T element_of(int value) {
  if constexpr (std::is_same_v<T, int8_t>) {
    return static_cast<int8_t>(value);
  } else {
    return from_float<T>(static_cast<float>(value));
  }
}

template <int N, class A, class B>
void test_stage(int range, ptx::WgmmaSum<A> start, bool accumulate = true) {
  using Kernel = MultiplyStage<N, A, B>;
  using Sum = typename Kernel::Sum;
  constexpr int kDepth = Kernel::kDepth;
  test::Buffer<A> a(64 * kDepth);
  test::Buffer<B> b(N * kDepth);
  test::Buffer<Sum> d(64 * N);
  std::mt19937 random(7);
  std::uniform_int_distribution<int> numbers(-range, range);
  std::vector<int> a_values(a.size());
  std::vector<int> b_values(b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = element_of<A>(a_values[i] = numbers(random));
  for (size_t i = 0; i < b.size(); ++i) b[i] = element_of<B>(b_values[i] = numbers(random));
  for (const bool plain : {false, true}) {
    for (size_t i = 0; i < d.size(); ++i) d[i] = 0;
    test::run<Kernel>({.threads = 128}, {Kernel::StageA::tensor_map(a.data(), 64, kDepth, kDepth),
                                         Kernel::StageB::tensor_map(b.data(), N, kDepth, kDepth),
                                         Kernel::Store::tensor_map(d.data(), 64, N, N),
                                         plain ? d.data() : nullptr, start, accumulate});
    for (int m = 0; m < 64; ++m) {
      for (int n = 0; n < N; ++n) {
        int64_t expected = accumulate ? static_cast<int64_t>(start) : 0;
        for (int k = 0; k < kDepth; ++k) {
          expected += a_values[static_cast<size_t>(m * kDepth + k)] *
                      b_values[static_cast<size_t>(n * kDepth + k)];
        }
        const Sum sum = d[static_cast<size_t>(m * N + n)];
        if constexpr (std::is_same_v<A, int8_t>) {
          ASSERT_EQ(sum, static_cast<int32_t>(static_cast<uint32_t>(expected))) << m << " " << n;
        } else {
          ASSERT_EQ(sum, static_cast<float>(expected)) << m << " " << n;
        }
      }
    }
  }
}

// The same with A in registers.
template <int N, class T>
struct MultiplyRegisters {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kDepth = 128 / static_cast<int>(sizeof(T));
  static constexpr int kSteps = 4;
  static constexpr int kStep = kDepth / kSteps;
  static constexpr int kWide = 4 / static_cast<int>(sizeof(T));  // elements of a register
  using StageB = tile::OperandStage<T, Major::kK, N, kDepth, 1>;
  struct Arguments {
    const T* a;
    ptx::TensorMap b;
    float* d;  // [128, N / 2]
  };
  struct SharedStorage {
    SharedArray<T, StageB::kElements, 1024> b;
    ptx::Mbarrier full;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (thread_index() == 0) {
      ptx::mbarrier_arrive_expect_tx(shared.full, StageB::kElements * sizeof(T));
      StageB::load(shared.b.pointer(), arguments.b, shared.full, 0, 0, {});
    }
    ptx::mbarrier_wait_parity(shared.full, 0);
    // "WGMMA .m64nNk8, .m64nNk32 register fragment layout for matrix A": element i of a thread.
    uint32_t a[kSteps][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4 * kWide; ++i) {
        const int row = warp_index() * 16 + lane_index() / 4 + (i / kWide % 2 == 0 ? 0 : 8);
        const int column =
            step * kStep + lane_index() % 4 * kWide + i % kWide + (i < 2 * kWide ? 0 : 4 * kWide);
        const T element = arguments.a[row * kDepth + column];
        if constexpr (kWide == 1) {
          a[step][i] = std::bit_cast<uint32_t>(element);
        } else {
          a[step][i / kWide] |= static_cast<uint32_t>(element.bits) << (i % kWide * 8);
        }
      }
    }
    float d[N / 2];
    const uint64_t b = StageB::descriptor(shared.b.pointer());
    ptx::wgmma_fence(d, a[0], a[1], a[2], a[3]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint64_t from = StageB::advance(b, 0, step * kStep);
      if constexpr (kWide == 1) {
        ptx::wgmma_m64k8<N>(d, a[step], from, step > 0);
      } else {
        ptx::wgmma_m64k32<N, T, T>(d, a[step], from, step > 0);
      }
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    for (int i = 0; i < N / 2; ++i) arguments.d[thread_index() * (N / 2) + i] = d[i];
  }
};

template <int N, class T>
void test_registers() {
  using Kernel = MultiplyRegisters<N, T>;
  constexpr int kDepth = Kernel::kDepth;
  test::Buffer<T> a(64 * kDepth);
  test::Buffer<T> b(N * kDepth);
  test::Buffer<float> d(64 * N);
  std::mt19937 random(7);
  std::uniform_int_distribution<int> numbers(-4, 4);
  for (T& element : a) element = element_of<T>(numbers(random));
  for (T& element : b) element = element_of<T>(numbers(random));
  test::run<Kernel>({.threads = 128},
                    {a.data(), Kernel::StageB::tensor_map(b.data(), N, kDepth, kDepth), d.data()});
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < N; ++n) {
      float expected = 0;
      for (int k = 0; k < kDepth; ++k) {
        expected += to_float(a[static_cast<size_t>(m * kDepth + k)]) *
                    to_float(b[static_cast<size_t>(n * kDepth + k)]);
      }
      const int thread = m / 16 * 32 + m % 8 * 4 + n % 8 / 2;
      const int i = n / 8 * 4 + m % 16 / 8 * 2 + n % 2;
      ASSERT_EQ(d[static_cast<size_t>(thread * (N / 2) + i)], expected) << m << " " << n;
    }
  }
}

TEST(WgmmaKMajor, Fp8FromRegisters) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_registers<64, e4m3>();
  test_registers<128, e4m3>();
  test_registers<256, e4m3>();
}

TEST(WgmmaKMajor, Tf32FromRegisters) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_registers<128, float>();
  test_registers<256, float>();
}

// Of the sums' 14 bits on an H200 these numbers need fewer: at most 128 * 4 * 4.
TEST(WgmmaKMajor, Fp8) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_stage<128, e4m3, e4m3>(4, 0);
  test_stage<64, e4m3, e5m2>(4, 16);
  test_stage<256, e5m2, e4m3>(4, 0, false);
  test_stage<32, e5m2, e5m2>(4, 16);
}

TEST(WgmmaKMajor, IntegersWrap) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_stage<128, int8_t, int8_t>(127, 0x7FFFFF00);
  test_stage<256, int8_t, int8_t>(127, 0, false);
  test_stage<32, int8_t, int8_t>(127, -5);
}

TEST(WgmmaKMajor, Tf32) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_stage<128, float, float>(100, 3);
  test_stage<256, float, float>(100, 0, false);
  test_stage<32, float, float>(100, -1);
}

TEST(WgmmaKMajor, EveryOrder) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    test_stage<32, e4m3, e4m3>(4, 0);
    test_stage<32, int8_t, int8_t>(9, 1);
  });
}

// The low 13 bits of an f32 are not there for the tensor core.
TEST(WgmmaKMajor, Tf32CutsOff) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  using Kernel = MultiplyStage<32, float, float>;
  test::Buffer<float> a(64 * 32);
  test::Buffer<float> b(32 * 32);
  test::Buffer<float> d(64 * 32);
  for (size_t i = 0; i < a.size(); ++i) a[i] = i % 32 == 0 ? 1 + 0x1.ffp-11F : 0;
  for (float& element : b) element = -(1 + 0x1p-10F + 0x1.ffp-11F);
  test::run<Kernel>({.threads = 128},
                    {Kernel::StageA::tensor_map(a.data(), 64, 32, 32),
                     Kernel::StageB::tensor_map(b.data(), 32, 32, 32),
                     Kernel::Store::tensor_map(d.data(), 64, 32, 32), nullptr, 0, false});
  for (const float sum : d) ASSERT_EQ(sum, -(1 + 0x1p-10F));
}

}  // namespace
}  // namespace ws
