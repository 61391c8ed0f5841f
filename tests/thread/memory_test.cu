// Loads, stores and conversions of vectors.
#include "warpsmith/thread/memory.hpp"

#include <cmath>

#include "tests/run.hpp"

namespace ws {
namespace {

template <class T, int N, Cache kCache>
struct CopyVectors {
  static constexpr int kThreads = 64;
  struct Arguments {
    const T* x;
    T* y;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    constexpr bool kLoadsOnly = kCache == Cache::kReadOnly || kCache == Cache::kPassing;
    constexpr Cache kStore = kLoadsOnly ? Cache::kDefault : kCache;
    const int i = thread_index() * N;
    if constexpr (N == 1) {
      thread::store<kStore>(arguments.y + i, thread::load<kCache>(arguments.x + i));
    } else {
      thread::store<kStore>(arguments.y + i, thread::load<N, kCache>(arguments.x + i));
    }
  }
};

template <class T, int N, Cache kCache>
void test_copy() {
  SCOPED_TRACE(N * sizeof(T));
  test::Buffer<T> x(64 * N);
  test::Buffer<T> y(64 * N);
  auto* bytes = reinterpret_cast<uint8_t*>(x.data());
  for (size_t i = 0; i < 64 * N * sizeof(T); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 256);
#ifdef WS_EMULATED
  emulator::reset_counts();
#endif
  test::run<CopyVectors<T, N, kCache>>({.threads = 64}, {x.data(), y.data()});
  EXPECT_TRUE(std::equal(bytes, bytes + 64 * N * sizeof(T), reinterpret_cast<uint8_t*>(y.data())));
#ifdef WS_EMULATED
  const emulator::Counts counts = emulator::counts();
  const auto of = [&](emulator::Count count) { return counts[static_cast<size_t>(count)]; };
  const size_t accesses = (N * sizeof(T) + 15) / 16;
  EXPECT_EQ(of(emulator::Count::kGlobalLoads), 64 * accesses);
  EXPECT_EQ(of(emulator::Count::kGlobalStores), 64 * accesses);
  EXPECT_EQ(of(emulator::Count::kGlobalLoadBytes), 64 * N * sizeof(T));
  EXPECT_EQ(of(emulator::Count::kGlobalStoreBytes), 64 * N * sizeof(T));
#endif
}

template <Cache kCache>
void test_copies() {
  if constexpr (kCache != Cache::kPassing) {
    test_copy<e4m3, 1, kCache>();
    test_copy<half, 1, kCache>();
  }
  test_copy<half, 2, kCache>();
  test_copy<bf16, 4, kCache>();
  test_copy<bf16, 8, kCache>();
  test_copy<e5m2, 16, kCache>();
  test_copy<float, 1, kCache>();
  test_copy<float, 4, kCache>();
  test_copy<float, 8, kCache>();
  test_copy<half, 16, kCache>();
}

TEST(Memory, CopiesVectorsOfEveryWidth) {
  test_copies<Cache::kDefault>();
  test_copies<Cache::kStreaming>();
  test_copies<Cache::kReadOnly>();
  test_copies<Cache::kPassing>();
}

#ifdef WS_EMULATED
TEST(Memory, FaultsOnMisalignedAddresses) {
  test::Buffer<float> x(64 * 4 + 4);
  test::Buffer<float> y(64 * 4 + 4);
  using Kernel = CopyVectors<float, 4, Cache::kDefault>;
  const Grid grid{.threads = 64};
  test::expect_fault<Kernel>(emulator::Fault::kMisaligned, "ld.global", grid,
                             {x.data() + 1, y.data()});
  test::expect_fault<Kernel>(emulator::Fault::kMisaligned, "st.global", grid,
                             {x.data(), y.data() + 2});
}

struct LoadShared {
  static constexpr int kThreads = 1;
  struct Arguments {
    bool store;
  };
  struct SharedStorage {
    float value[4];
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    if (arguments.store) thread::store(shared.value, 1.0f);
    thread::load(shared.value);
  }
};

TEST(Memory, FaultsOnSharedMemory) {
  test::expect_fault<LoadShared>(emulator::Fault::kInvalidUse, "in shared memory", {}, {false});
  test::expect_fault<LoadShared>(emulator::Fault::kInvalidUse, "in shared memory", {}, {true});
}
#endif

template <class T>
struct ConvertVectors {
  static constexpr int kThreads = 64;
  struct Arguments {
    const float* x;
    T* pairs;    // narrowed by fours
    T* singles;  // narrowed one by one
    float* back;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int i = thread_index() * 4;
    const Vec<float, 4> values = thread::load<4>(arguments.x + i);
    const Vec<T, 4> narrow = thread::convert<T>(values);
    thread::store(arguments.pairs + i, narrow);
    for (int j = 0; j < 4; ++j) thread::store(arguments.singles + i + j, from_float<T>(values[j]));
    thread::store(arguments.back + i, thread::convert<float>(narrow));
  }
};

template <class T>
void test_convert() {
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) {
    values.push_back(std::ldexp(1.0f + 0.37f * static_cast<float>(i % 7), i % 40 - 20) *
                     (i % 3 == 0 ? -1.0f : 1.0f));
  }
  values[5] = 0.0f;
  values[6] = -0.0f;
  values[9] = std::numeric_limits<float>::infinity();
  values[10] = -1e38f;
  test::Buffer<float> x(values);
  test::Buffer<T> pairs(256);
  test::Buffer<T> singles(256);
  test::Buffer<float> back(256);
  test::run<ConvertVectors<T>>({.threads = 64},
                               {x.data(), pairs.data(), singles.data(), back.data()});
  for (size_t i = 0; i < 256; ++i) {
    const T expected(values[i]);  // by the host
    ASSERT_EQ(pairs[i].bits, expected.bits) << values[i];
    ASSERT_EQ(singles[i].bits, expected.bits) << values[i];
    ASSERT_EQ(back[i], static_cast<float>(expected)) << values[i];
  }
}

TEST(Convert, PairsAndSinglesAgreeWithTheHost) {
  test_convert<half>();
  test_convert<bf16>();
  test_convert<e4m3>();
  test_convert<e5m2>();
}

// All patterns of a format to float and back, where they run.
template <class T>
struct RoundTrip {
  static constexpr int kThreads = 256;
  struct Arguments {
    float* wide;
    T* narrow;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int64_t i = block_index() * 256 + thread_index();
    T value;
    value.bits = static_cast<decltype(value.bits)>(i);
    thread::store(arguments.wide + i, to_float(value));
    thread::store(arguments.narrow + i, from_float<T>(to_float(value)));
  }
};

template <class T>
void test_round_trip() {
  constexpr size_t kPatterns = size_t{1} << (8 * sizeof(T));
  test::Buffer<float> wide(kPatterns);
  test::Buffer<T> narrow(kPatterns);
  test::run<RoundTrip<T>>({.blocks = kPatterns / 256, .threads = 256},
                          {wide.data(), narrow.data()});
  for (size_t i = 0; i < kPatterns; ++i) {
    T value;
    value.bits = static_cast<decltype(value.bits)>(i);
    const T expected(to_float(value));  // by the host: canonical NaN, saturated infinity
    if (std::isnan(to_float(value))) {
      ASSERT_TRUE(std::isnan(wide[i])) << i;
    } else {
      ASSERT_EQ(wide[i], to_float(value)) << i;
    }
    ASSERT_EQ(narrow[i].bits, expected.bits) << i;
  }
}

TEST(Convert, EveryPatternAgreesWithTheHost) {
  test_round_trip<half>();
  test_round_trip<bf16>();
  test_round_trip<e4m3>();
  test_round_trip<e5m2>();
}

}  // namespace
}  // namespace ws
