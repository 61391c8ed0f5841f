// wgmma: operand layouts in shared memory, fragments in registers, and when products take effect.
#include "warpsmith/ptx/wgmma.hpp"

#include <cmath>

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

using ptx::Major;
using ptx::Swizzle;

constexpr int kDepth = 64;  // four instructions deep
constexpr int kSteps = kDepth / 16;

float a_value(int m, int k) { return static_cast<float>((m * 7 + k * 3 + m / 8) % 11 - 5); }
float b_value(int k, int n) { return static_cast<float>((k * 5 + n * 9 + n / 16) % 13 - 6); }

// An operand [mn, 64] as it lies in shared memory, and the descriptors' fields.
struct Layout {
  uint32_t leading = 0;
  uint32_t stride = 0;
  uint32_t step = 0;              // bytes from one instruction's 16 k to the next
  uint32_t panel_steps = kSteps;  // after so many steps, the next panel
  uint32_t panel = 0;             // bytes of a panel
};

// Byte of element (mn, k). Written after "Canonical Layouts": the tile is cut into panels, one row
// of the swizzle wide along the major dimension; in a panel, row r of W bytes follows row r - 1,
// and chunk c of row r stands at place c ^ (which row of its 8, as far as the swizzle looks at it).
uint32_t byte_of(Major major, Swizzle swizzle, int extent, int mn, int k, Layout& layout) {
  const auto u = [](int v) { return static_cast<uint32_t>(v); };
  if (swizzle == Swizzle::kNone) {
    // Core matrices of 8 rows of 16 bytes, in any regular arrangement.
    if (major == Major::kK) {
      layout = {.leading = u(extent) * 16, .stride = 128, .step = 2 * u(extent) * 16};
      return u(k) / 8 * layout.leading + u(mn) / 8 * 128 + u(mn) % 8 * 16 + u(k) % 8 * 2;
    }
    layout = {.leading = 128, .stride = kDepth / 8 * 128, .step = 256};
    return u(mn) / 8 * layout.stride + u(k) / 8 * 128 + u(k) % 8 * 16 + u(mn) % 8 * 2;
  }
  const uint32_t width = swizzle == Swizzle::k128 ? 128 : swizzle == Swizzle::k64 ? 64 : 32;
  const uint32_t row = u(major == Major::kK ? mn : k);
  const uint32_t along = 2 * u(major == Major::kK ? k : mn);  // bytes
  const uint32_t rows = u(major == Major::kK ? extent : kDepth);
  const uint32_t chunks = width / 16;
  const uint32_t swap = row % 8 * chunks / 8;
  layout.stride = 8 * width;
  layout.panel = rows * width;
  if (major == Major::kK) {
    layout.leading = 16;  // not used
    layout.step = 32;
    layout.panel_steps = width / 32;
  } else {
    layout.leading = rows * width;
    layout.step = 16 * width;
  }
  return along / width * layout.panel + row * width + ((along % width / 16) ^ swap) * 16 +
         along % 16;
}

template <class T, class Value>
Layout fill(test::Buffer<uint16_t>& image, Major major, Swizzle swizzle, int extent, Value value) {
  Layout layout;
  for (int mn = 0; mn < extent; ++mn) {
    for (int k = 0; k < kDepth; ++k) {
      const uint32_t byte = byte_of(major, swizzle, extent, mn, k, layout);
      image[byte / 2] = T(value(mn, k)).bits;
    }
  }
  return layout;
}

// D = A * B + start, [64, N].
template <int N, class T, Major kMajorA, Major kMajorB, bool kRegisters>
struct Multiply {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 1;
  static constexpr Arch kArch = Arch::kSm90a;
  struct Arguments {
    const uint16_t* a;  // image of A in shared memory; with A in registers, A [64, 64] itself
    const uint16_t* b;
    float* d;  // [128, N / 2]
    Layout layout_a;
    Layout layout_b;
    Swizzle swizzle_a;
    Swizzle swizzle_b;
    bool accumulate;
    int start_thread;  // the warpgroup is the one from here
  };
  struct SharedStorage {
    SharedArray<uint16_t, 64 * kDepth, 1024> a;
    // MN-major panels are full even where N is not.
    SharedArray<uint16_t, (N + 63) / 64 * 64 * kDepth, 1024> b;
  };
  __device__ static uint64_t advance(uint64_t descriptor, const Layout& layout, int step) {
    const auto s = static_cast<uint32_t>(step);
    return ptx::wgmma_advance(
        descriptor, s / layout.panel_steps * layout.panel + s % layout.panel_steps * layout.step);
  }
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int thread = thread_index();
    for (int i = thread; i < shared.a.size(); i += block_threads()) {
      shared.a[i] = thread::load(arguments.a + i);
    }
    for (int i = thread; i < shared.b.size(); i += block_threads()) {
      shared.b[i] = thread::load(arguments.b + i);
    }
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    if (thread / 128 != arguments.start_thread / 128) return;

    float d[N / 2];
    for (int i = 0; i < N / 2; ++i)
      d[i] = 1000.0f * static_cast<float>(thread % 128) + static_cast<float>(i);
    uint32_t a[kSteps][4];
    if constexpr (kRegisters) {
      // "Register fragment layout for A": the row and column of each pair.
      const int row = 16 * (thread % 128 / 32) + thread % 32 / 4;
      const int column = 2 * (thread % 4);
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < 4; ++i) {
          const uint16_t* from =
              arguments.a + (row + i % 2 * 8) * kDepth + 16 * step + column + i / 2 * 8;
          a[step][i] = from[0] | (static_cast<uint32_t>(from[1]) << 16);
        }
      }
    }
    const uint64_t descriptor_a =
        ptx::wgmma_descriptor(shared.a.pointer(), arguments.layout_a.leading,
                              arguments.layout_a.stride, arguments.swizzle_a);
    const uint64_t descriptor_b =
        ptx::wgmma_descriptor(shared.b.pointer(), arguments.layout_b.leading,
                              arguments.layout_b.stride, arguments.swizzle_b);
    ptx::wgmma_fence(d);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const bool accumulate = arguments.accumulate || step > 0;
      const uint64_t b = advance(descriptor_b, arguments.layout_b, step);
      if constexpr (kRegisters) {
        ptx::wgmma_m64k16<N, T, kMajorB>(d, a[step], b, accumulate);
      } else {
        ptx::wgmma_m64k16<N, T, kMajorA, kMajorB>(
            d, advance(descriptor_a, arguments.layout_a, step), b, accumulate);
      }
    }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    for (int i = 0; i < N / 2; ++i) arguments.d[thread % 128 * (N / 2) + i] = d[i];
  }
};

template <int N, class T, Major kMajorA, Major kMajorB, bool kRegisters = false>
void test_multiply(Swizzle swizzle_a, Swizzle swizzle_b, bool accumulate = true, int start = 0) {
  SCOPED_TRACE(testing::Message() << "N " << N << ", swizzles " << static_cast<int>(swizzle_a)
                                  << " " << static_cast<int>(swizzle_b));
  test::Buffer<uint16_t> a(64 * kDepth);
  test::Buffer<uint16_t> b((N + 63) / 64 * 64 * kDepth);
  test::Buffer<float> d(64 * N);
  Layout layout_a;
  if (kRegisters) {
    for (int m = 0; m < 64; ++m) {
      for (int k = 0; k < kDepth; ++k)
        a[static_cast<size_t>(m * kDepth + k)] = T(a_value(m, k)).bits;
    }
  } else {
    layout_a = fill<T>(a, kMajorA, swizzle_a, 64, a_value);
  }
  const Layout layout_b =
      fill<T>(b, kMajorB, swizzle_b, N, [](int n, int k) { return b_value(k, n); });
  test::run<Multiply<N, T, kMajorA, kMajorB, kRegisters>>(
      {.threads = start == 0 ? 128 : 256},
      {a.data(), b.data(), d.data(), layout_a, layout_b, swizzle_a, swizzle_b, accumulate, start});
  // "WGMMA .m64nNk16 register fragment layout for accumulator matrix D": who holds (row, column).
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < N; ++column) {
      const int thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2;
      const int i = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
      float expected =
          accumulate ? 1000.0f * static_cast<float>(thread) + static_cast<float>(i) : 0;
      for (int k = 0; k < kDepth; ++k) expected += a_value(row, k) * b_value(k, column);
      ASSERT_EQ(d[static_cast<size_t>(thread * (N / 2) + i)], expected) << row << " " << column;
    }
  }
}

constexpr Swizzle kSwizzles[] = {Swizzle::kNone, Swizzle::k32, Swizzle::k64, Swizzle::k128};

template <int N, class T, Major kMajorA, Major kMajorB>
void test_swizzles() {
  for (const Swizzle a : kSwizzles) {
    for (const Swizzle b : kSwizzles) test_multiply<N, T, kMajorA, kMajorB>(a, b);
  }
}

TEST(Wgmma, EveryMajorAndSwizzle) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_swizzles<64, half, Major::kK, Major::kK>();
  test_swizzles<64, half, Major::kK, Major::kMN>();
  test_swizzles<64, half, Major::kMN, Major::kK>();
  test_swizzles<64, half, Major::kMN, Major::kMN>();
  test_swizzles<128, bf16, Major::kK, Major::kK>();
  test_swizzles<128, bf16, Major::kMN, Major::kMN>();
  test_swizzles<24, half, Major::kMN, Major::kMN>();
  test_swizzles<200, bf16, Major::kK, Major::kMN>();
}

TEST(Wgmma, AFromRegisters) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  for (const Swizzle swizzle : kSwizzles) {
    test_multiply<64, half, Major::kK, Major::kK, true>(swizzle, swizzle);
    test_multiply<96, bf16, Major::kK, Major::kMN, true>(swizzle, swizzle);
    test_multiply<256, half, Major::kK, Major::kMN, true>(swizzle, swizzle, false);
  }
}

template <int... kEighths>
void test_every_n(std::integer_sequence<int, kEighths...>) {
  (test_multiply<8 * (kEighths + 1), half, Major::kK, Major::kK>(Swizzle::k128, Swizzle::k128),
   ...);
  (test_multiply<8 * (kEighths + 1), bf16, Major::kK, Major::kK>(Swizzle::k128, Swizzle::k128,
                                                                 false),
   ...);
}

TEST(Wgmma, EveryN) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test_every_n(std::make_integer_sequence<int, 32>());
}

TEST(Wgmma, EveryOrderAndTheSecondWarpgroup) {
  WS_REQUIRE_ARCH(Arch::kSm90a);
  test::in_every_order([] {
    for (const bool accumulate : {false, true}) {
      for (const int start : {0, 128}) {
        test_multiply<40, half, Major::kMN, Major::kK>(Swizzle::k64, Swizzle::k128, accumulate,
                                                       start);
      }
    }
  });
}

// ---- What the emulator must find ---------------------------------------------------------------

#ifdef WS_EMULATED

enum class Bug {
  kNone,
  kNoFence,
  kNoSecondFence,
  kReadEarly,
  kWriteEarly,
  kUnwritten,
  kNoProxyFence,
  kOutside,
  kMisaligned,
  kMisalignedPattern,
  kMisalignedStride,
  kDiverged,
  kOtherDescriptor,
  kOverwrite,
  kWarpIndex,
  kTwoShapes,
};

// Two products of [64, 16] by [16, 16], each in its group, on two accumulators.
struct Faulty {
  static constexpr int kThreads = 256;
  static constexpr Arch kArch = Arch::kSm90a;
  struct Arguments {
    Bug bug;
    float* d;  // [128, 8]: read before the wait of kReadEarly, else after
  };
  struct SharedStorage {
    SharedArray<half, 64 * 64, 1024> a;
    SharedArray<half, 16 * 64, 1024> b;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const Bug bug = arguments.bug;
    const int thread = thread_index() % 128;
    if (bug == Bug::kWarpIndex && (warp_index() == 0 || warp_index() > 4)) return;
    for (int i = thread; i < shared.a.size(); i += 128) shared.a[i] = half(1.0f);
    const int b_size = bug == Bug::kUnwritten ? shared.b.size() - 64 : shared.b.size();
    for (int i = thread; i < b_size; i += 128) shared.b[i] = half(2.0f);
    if (bug != Bug::kNoProxyFence) ptx::fence_proxy_async();
    ptx::barrier_sync(1, 128);

    int skew = bug == Bug::kMisaligned ? 8 : 0;
    if (bug == Bug::kMisalignedPattern) skew = 256;
    if (bug == Bug::kOutside) skew = 1024;
    const char* from = reinterpret_cast<const char*>(shared.b.pointer()) + skew;
    const uint64_t a = ptx::wgmma_descriptor(shared.a.pointer(), 16, 1024, Swizzle::k128);
    const uint64_t b =
        ptx::wgmma_descriptor(from, 16, bug == Bug::kMisalignedStride ? 1020 : 1024, Swizzle::k128);
    float d0[8] = {};
    float d1[8] = {};
    float other[4] = {};
    if (bug != Bug::kNoFence) ptx::wgmma_fence(d0, d1);
    if (bug == Bug::kDiverged && warp_index() == 2) return;
    const bool strange = bug == Bug::kOtherDescriptor && thread == 77;
    ptx::wgmma_m64k16<16, half>(d0, a, strange ? ptx::wgmma_advance(b, 32) : b, false);
    ptx::wgmma_commit_group();
    ptx::wgmma_m64k16<16, half>(d1, a, b, false);
    if (bug == Bug::kTwoShapes) {
      ptx::wgmma_m64k16<8, half>(reinterpret_cast<float (&)[4]>(d1), a, b, true);
    }
    ptx::wgmma_commit_group();
    if (bug == Bug::kOverwrite && thread == 0) shared.a[5] = half(0.0f);
    if (bug == Bug::kWriteEarly) d0[3] = 0;
    if (bug == Bug::kReadEarly) {
      ptx::wgmma_wait_group<1>(d0);
      for (int i = 0; i < 8; ++i) arguments.d[thread * 8 + i] = i < 4 ? d0[i] : d1[i];
    }
    ptx::wgmma_wait_group<1>(d0);
    if (bug != Bug::kNoSecondFence) ptx::wgmma_fence(d0, other);
    ptx::wgmma_m64k16<16, half>(d0, a, b, true);  // 16 * 2 * 2 in all
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d0, d1);
    if (bug != Bug::kReadEarly) {
      for (int i = 0; i < 8; ++i) arguments.d[thread * 8 + i] = i < 4 ? d0[i] : d1[i];
    }
  }
};

void expect_wgmma_fault(Bug bug, emulator::Fault fault, const std::string& words,
                        int threads = 128) {
  SCOPED_TRACE(words);
  test::Buffer<float> d(128 * 8);
  test::expect_fault<Faulty>(fault, words, {.threads = threads}, {bug, d.data()});
}

TEST(Wgmma, GroupsCompleteAtTheirWaits) {
  test::in_every_order([] {
    test::Buffer<float> d(128 * 8);
    test::run<Faulty>({.threads = 128}, {Bug::kNone, d.data()});
    for (size_t i = 0; i < d.size(); ++i) EXPECT_EQ(d[i], i % 8 < 4 ? 64 : 32);
    test::run<Faulty>({.threads = 128}, {Bug::kReadEarly, d.data()});
    for (size_t i = 0; i < d.size(); ++i) {
      if (i % 8 < 4) {
        EXPECT_EQ(d[i], 32);  // waited for
      } else {
        EXPECT_TRUE(std::isnan(d[i]));  // in flight
      }
    }
  });
}

TEST(Wgmma, Faults) {
  using emulator::Fault;
  test::in_every_order([] {
    expect_wgmma_fault(Bug::kNoFence, Fault::kInvalidUse, "no wgmma.fence");
    expect_wgmma_fault(Bug::kNoSecondFence, Fault::kInvalidUse, "no wgmma.fence");
    expect_wgmma_fault(Bug::kWriteEarly, Fault::kInvalidUse, "accumulator 3 was written");
    expect_wgmma_fault(Bug::kUnwritten, Fault::kUnwrittenRead, "wgmma.mma_async");
    expect_wgmma_fault(Bug::kNoProxyFence, Fault::kInvalidUse, "fence.proxy.async");
    expect_wgmma_fault(Bug::kOutside, Fault::kOutOfRange, "shared address");
    expect_wgmma_fault(Bug::kMisaligned, Fault::kMisaligned, "multiple of 16");
    expect_wgmma_fault(Bug::kMisalignedStride, Fault::kMisaligned, "multiple of 16");
    expect_wgmma_fault(Bug::kMisalignedPattern, Fault::kMisaligned, "1024 bytes");
    expect_wgmma_fault(Bug::kDiverged, Fault::kDivergence, "wgmma.mma_async");
    expect_wgmma_fault(Bug::kOtherDescriptor, Fault::kDivergence, "different operands");
    expect_wgmma_fault(Bug::kOverwrite, Fault::kInvalidUse, "still reads");
    expect_wgmma_fault(Bug::kTwoShapes, Fault::kInvalidUse, "n = 8");
    expect_wgmma_fault(Bug::kWarpIndex, Fault::kDivergence, "wgmma", 256);
  });
}

struct OddBlock {
  static constexpr int kThreads = 96;
  static constexpr Arch kArch = Arch::kSm90a;
  struct Arguments {};
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments&) const { ptx::wgmma_fence(); }
};

TEST(Wgmma, NeedsAWholeWarpgroup) {
  EXPECT_THROW(test::run<OddBlock>({.threads = 96}, {}), emulator::FaultError);
}

#endif

}  // namespace
}  // namespace ws
