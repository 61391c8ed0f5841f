// ldmatrix, stmatrix and mma.sync: which lane holds which element, from the figures of the PTX ISA.
#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/ptx/movmatrix.hpp"
#include "warpsmith/ptx/stmatrix.hpp"
#include "warpsmith/ptx/wmma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws {
namespace {

// Element (row, column) of matrix m.
__host__ __device__ constexpr uint16_t element(int m, int row, int column) {
  return static_cast<uint16_t>(1000 * m + 10 * row + column + 1);
}

// Where row `row` of matrix m lies, in units of 16 bytes: scattered, for lanes give any addresses.
__host__ __device__ constexpr int place(int m, int row) { return (5 * (8 * m + row) + 3) % 32; }

template <int kMatrices, bool kTranspose>
__device__ void load_matrices(uint32_t (&r)[kMatrices], const void* row) {
  if constexpr (kMatrices == 1) {
    ptx::ldmatrix_x1<kTranspose>(r, row);
  } else if constexpr (kMatrices == 2) {
    ptx::ldmatrix_x2<kTranspose>(r, row);
  } else {
    ptx::ldmatrix_x4<kTranspose>(r, row);
  }
}

template <int kMatrices, bool kTranspose>
__device__ void store_matrices(void* row, const uint32_t (&r)[kMatrices]) {
  if constexpr (kMatrices == 1) {
    ptx::stmatrix_x1<kTranspose>(row, r);
  } else if constexpr (kMatrices == 2) {
    ptx::stmatrix_x2<kTranspose>(row, r);
  } else {
    ptx::stmatrix_x4<kTranspose>(row, r);
  }
}

struct MatrixStorage {
  SharedArray<uint16_t, 32 * 8> rows;
};

template <int kMatrices, bool kTranspose>
struct LoadMatrices {
  static constexpr int kThreads = 32;
  struct Arguments {
    uint32_t* y;  // [kMatrices, 32]
    int skew;     // bytes to add to the addresses
    bool write;
  };
  using SharedStorage = MatrixStorage;
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int lane = lane_index();
    if (arguments.write && lane < 8) {
      for (int m = 0; m < kMatrices; ++m) {
        for (int column = 0; column < 8; ++column) {
          shared.rows[place(m, lane) * 8 + column] = element(m, lane, column);
        }
      }
    }
    ptx::barrier_sync();
    const int given = lane < 8 * kMatrices ? lane : 0;
    const char* row =
        reinterpret_cast<const char*>(shared.rows.pointer(place(given / 8, given % 8) * 8));
    uint32_t r[kMatrices];
    load_matrices<kMatrices, kTranspose>(r, row + arguments.skew);
    for (int m = 0; m < kMatrices; ++m) arguments.y[32 * m + lane] = r[m];
  }
};

template <int kMatrices, bool kTranspose>
void test_load() {
  test::Buffer<uint32_t> y(kMatrices * 32);
  test::run<LoadMatrices<kMatrices, kTranspose>>({.threads = 32}, {y.data(), 0, true});
  for (int m = 0; m < kMatrices; ++m) {
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        const int lane = kTranspose ? 4 * column + row / 2 : 4 * row + column / 2;
        const int half = kTranspose ? row % 2 : column % 2;
        const uint32_t held = y[static_cast<size_t>(32 * m + lane)] >> (16 * half) & 0xFFFF;
        ASSERT_EQ(held, element(m, row, column)) << m << " " << row << " " << column;
      }
    }
  }
}

TEST(Ldmatrix, Layout) {
  test::in_every_order([] {
    test_load<1, false>();
    test_load<1, true>();
    test_load<2, false>();
    test_load<2, true>();
    test_load<4, false>();
    test_load<4, true>();
  });
}

template <int kMatrices, bool kTranspose>
struct StoreMatrices {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    uint16_t* y;  // [kMatrices, 8, 8]
    int skew;
  };
  using SharedStorage = MatrixStorage;
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int lane = lane_index();
    uint32_t r[kMatrices];
    for (int m = 0; m < kMatrices; ++m) {
      const int i = lane / 4;
      const int j = 2 * (lane % 4);
      const uint32_t low = kTranspose ? element(m, j, i) : element(m, i, j);
      const uint32_t high = kTranspose ? element(m, j + 1, i) : element(m, i, j + 1);
      r[m] = low | (high << 16);
    }
    const int given = lane < 8 * kMatrices ? lane : 0;
    char* row = reinterpret_cast<char*>(shared.rows.pointer(place(given / 8, given % 8) * 8));
    store_matrices<kMatrices, kTranspose>(row + arguments.skew, r);
    ptx::barrier_sync();
    if (lane >= 8) return;
    for (int m = 0; m < kMatrices; ++m) {
      for (int column = 0; column < 8; ++column) {
        arguments.y[(m * 8 + lane) * 8 + column] = shared.rows[place(m, lane) * 8 + column];
      }
    }
  }
};

template <int kMatrices, bool kTranspose>
void test_store() {
  test::Buffer<uint16_t> y(kMatrices * 64);
  test::run<StoreMatrices<kMatrices, kTranspose>>({.threads = 32}, {y.data(), 0});
  for (int m = 0; m < kMatrices; ++m) {
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        ASSERT_EQ(y[static_cast<size_t>((m * 8 + row) * 8 + column)], element(m, row, column));
      }
    }
  }
}

TEST(Stmatrix, Layout) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::in_every_order([] {
    test_store<1, false>();
    test_store<1, true>();
    test_store<2, false>();
    test_store<2, true>();
    test_store<4, false>();
    test_store<4, true>();
  });
}

#ifdef WS_EMULATED
TEST(Ldmatrix, Faults) {
  using emulator::Fault;
  test::Buffer<uint32_t> y(128);
  const Grid grid{.threads = 32};
  using Load = LoadMatrices<4, false>;
  test::expect_fault<Load>(Fault::kMisaligned, "ldmatrix", grid, {y.data(), 8, true});
  test::expect_fault<Load>(Fault::kOutOfRange, "ldmatrix", grid, {y.data(), 512, true});
  test::expect_fault<Load>(Fault::kUnwrittenRead, "ldmatrix", grid, {y.data(), 0, false});
}

TEST(Stmatrix, Faults) {
  using emulator::Fault;
  test::Buffer<uint16_t> y(256);
  using Store = StoreMatrices<4, true>;
  test::expect_fault<Store>(Fault::kMisaligned, "stmatrix.trans", {.threads = 32}, {y.data(), 2});
  test::expect_fault<Store>(Fault::kOutOfRange, "stmatrix.trans", {.threads = 32},
                            {y.data(), -512});
}

struct DivergedLoad {
  static constexpr int kThreads = 32;
  struct Arguments {};
  using SharedStorage = MatrixStorage;
  __device__ void operator()(SharedStorage& shared, const Arguments&) const {
    uint32_t r[1];
    if (lane_index() != 31) ptx::ldmatrix_x1(r, shared.rows.pointer());
  }
};

TEST(Ldmatrix, DivergenceIsAFault) {
  test::expect_fault<DivergedLoad>(emulator::Fault::kDivergence, "ldmatrix", {.threads = 32}, {});
}
#endif

// ---- mma.sync ----------------------------------------------------------------------------------

template <class T, class Accumulator>
struct MultiplyFragments {
  static constexpr int kThreads = 32;
  static constexpr Arch kArch = sizeof(T) == 1 ? Arch::kSm90 : Arch::kSm80;
  struct Arguments {
    const uint32_t* a;  // [32, 4]
    const uint32_t* b;  // [32, 2]
    const float* c;     // [32, 4]
    float* d;           // [32, 4]
    bool diverge;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int lane = lane_index();
    if (arguments.diverge && lane == 3) return;
    uint32_t a[4];
    uint32_t b[2];
    for (int i = 0; i < 4; ++i) a[i] = arguments.a[4 * lane + i];
    for (int i = 0; i < 2; ++i) b[i] = arguments.b[2 * lane + i];
    const float* const c = arguments.c + 4 * lane;
    if constexpr (std::is_same_v<Accumulator, float>) {
      float d[4] = {c[0], c[1], c[2], c[3]};
      if constexpr (sizeof(T) == 1) {
        ptx::mma_m16n8k32<T>(d, a, b, d);
      } else if constexpr (sizeof(T) == 4) {
        ptx::mma_m16n8k8(d, a, b, d);
      } else {
        ptx::mma_m16n8k16<T>(d, a, b, d);
      }
      for (int i = 0; i < 4; ++i) arguments.d[4 * lane + i] = d[i];
    } else {
      uint32_t d[2] = {ptx::cvt_rn_f16x2_f32(c[0], c[1]), ptx::cvt_rn_f16x2_f32(c[2], c[3])};
      ptx::mma_m16n8k16<T>(d, a, b, d);
      for (int i = 0; i < 4; ++i) {
        arguments.d[4 * lane + i] = ptx::cvt_f32_f16(static_cast<uint16_t>(d[i / 2] >> i % 2 * 16));
      }
    }
  }
};

// Small whole numbers, so that every order of summation gives the same, in f16 too.
float a_value(int m, int k) { return static_cast<float>((m * 7 + k * 3) % 11 - 5); }
float b_value(int k, int n) { return static_cast<float>((k * 5 + n * 9) % 13 - 6); }
float c_value(int m, int n) { return static_cast<float>(m * 8 + n) * 0.25f; }

template <class T, class Accumulator = float>
void test_mma() {
  test::Buffer<uint32_t> a(128);
  test::Buffer<uint32_t> b(64);
  test::Buffer<float> c(128);
  test::Buffer<float> d(128);
  constexpr int kWide = 4 / static_cast<int>(sizeof(T));  // elements of a register
  const auto bits = [](float value, int i) {
    if constexpr (sizeof(T) == 4) {
      return std::bit_cast<uint32_t>(value) | 0x1FFFU;  // which the tensor core does not see
    } else {
      return static_cast<uint32_t>(T(value).bits) << (i % kWide * 32 / kWide);
    }
  };
  // "Matrix Fragments for mma.m16n8k16 with floating point type", "for mma.m16n8k32" and "for
  // mma.m16n8k8": the element at index i of a lane.
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2;
    const int in_group = lane % 4;
    const auto k_of = [&](int i, int half) {
      return in_group * kWide + i % kWide + (i < half ? 0 : 4 * kWide);
    };
    for (int i = 0; i < 4 * kWide; ++i) {
      const int row = i / kWide % 2 == 0 ? group : group + 8;
      a[static_cast<size_t>(4 * lane + i / kWide)] |= bits(a_value(row, k_of(i, 2 * kWide)), i);
    }
    for (int i = 0; i < 2 * kWide; ++i) {
      b[static_cast<size_t>(2 * lane + i / kWide)] |= bits(b_value(k_of(i, kWide), group), i);
    }
    for (int i = 0; i < 4; ++i) {
      const int c_row = i < 2 ? group : group + 8;
      c[static_cast<size_t>(4 * lane + i)] = c_value(c_row, in_group * 2 + (i & 1));
    }
  }
  using Kernel = MultiplyFragments<T, Accumulator>;
  test::run<Kernel>({.threads = 32}, {a.data(), b.data(), c.data(), d.data(), false});
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      float expected = c_value(m, n);
      for (int k = 0; k < 8 * kWide; ++k) expected += a_value(m, k) * b_value(k, n);
      const int lane = m % 8 * 4 + n / 2;
      const int i = m / 8 * 2 + n % 2;
      ASSERT_EQ(d[static_cast<size_t>(4 * lane + i)], expected) << m << " " << n;
    }
  }
#ifdef WS_EMULATED
  test::expect_fault<Kernel>(emulator::Fault::kDivergence, "mma.sync", {.threads = 32},
                             {a.data(), b.data(), c.data(), d.data(), true});
#endif
}

TEST(Mma, M16N8K16) {
  test::in_every_order([] {
    test_mma<half>();
    test_mma<bf16>();
    test_mma<half, half>();
  });
}

TEST(Mma, M16N8K32) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::in_every_order([] { test_mma<e4m3>(); });
}

TEST(Mma, M16N8K8) {
  test::in_every_order([] { test_mma<float>(); });
}

// ---- wmma ---------------------------------------------------------------------------------------

// sums = A B from shared memory, and with A straight from global memory.
template <class T, int kM, int kN, class Sum = float>
struct MultiplyLoaded {
  static constexpr int kThreads = 32;
  static constexpr int kK = 32 / sizeof(T);
  static constexpr int kPitch = kK + 8;
  using Product = ptx::Wmma<T, kM, kN, kK, Sum>;
  struct Arguments {
    const T* a;  // [kM, kK]
    const T* b;  // [kK, kN]
    Sum* c;      // [2, kM, kN]
    int offset;  // of B in shared memory
    bool diverge;
  };
  struct SharedStorage {
    SharedArray<T, kM * kPitch, 128> a;
    SharedArray<T, kK * kN + 16, 128> b;
    SharedArray<Sum, kM * kN, 128> c;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const int lane = lane_index();
    if (arguments.diverge && lane == 3) return;
    for (int i = lane; i < kM * kK; i += 32) {
      shared.a[i / kK * kPitch + i % kK] = arguments.a[i];
    }
    for (int i = lane; i < kK * kN; i += 32) shared.b[i + arguments.offset] = arguments.b[i];
    if (!arguments.diverge) ptx::syncwarp();
    typename Product::B b;
    Product::load(b, shared.b.pointer(arguments.offset), kN);
    for (int from_global = 0; from_global < 2; ++from_global) {
      typename Product::A a;
      typename Product::Sums sums;
      Product::clear(sums);
      if (from_global == 0) {
        Product::load(a, shared.a.pointer(), kPitch);
      } else {
        Product::load(a, arguments.a, kK);
      }
      Product::multiply_add(sums, a, b);
      Product::store(shared.c.pointer(), sums, kN);
      ptx::syncwarp();
      for (int i = lane; i < kM * kN; i += 32) {
        arguments.c[from_global * kM * kN + i] = shared.c[i];
      }
      ptx::syncwarp();
    }
  }
};

template <class T, int kM, int kN, class Sum = float>
void test_wmma() {
  using Kernel = MultiplyLoaded<T, kM, kN, Sum>;
  constexpr int kK = Kernel::kK;
  test::Buffer<T> a(size_t{kM} * kK);
  test::Buffer<T> b(size_t{kK} * kN);
  test::Buffer<Sum> c(size_t{2} * kM * kN);
  for (int i = 0; i < kM * kK; ++i) a[static_cast<size_t>(i)] = T(a_value(i / kK, i % kK));
  for (int i = 0; i < kK * kN; ++i) b[static_cast<size_t>(i)] = T(b_value(i / kN, i % kN));
  test::run<Kernel>({.threads = 32}, {a.data(), b.data(), c.data(), 0, false});
  for (int i = 0; i < 2 * kM * kN; ++i) {
    const int m = i / kN % kM;
    const int n = i % kN;
    float expected = 0;
    for (int k = 0; k < kK; ++k) expected += a_value(m, k) * b_value(k, n);
    ASSERT_EQ(to_float(c[static_cast<size_t>(i)]), expected)
        << i / (kM * kN) << " " << m << " " << n;
  }
#ifdef WS_EMULATED
  test::expect_fault<Kernel>(emulator::Fault::kMisaligned, "wmma.load", {.threads = 32},
                             {a.data(), b.data(), c.data(), 16 / int{sizeof(T)}, false});
  test::expect_fault<Kernel>(emulator::Fault::kDivergence, "wmma.load", {.threads = 32},
                             {a.data(), b.data(), c.data(), 0, true});
#endif
}

TEST(Wmma, EveryShape) {
  test::in_every_order([] {
    test_wmma<half, 16, 16>();
    test_wmma<half, 32, 8>();
    test_wmma<half, 8, 32>();
    test_wmma<bf16, 16, 16>();
    test_wmma<bf16, 32, 8>();
    test_wmma<bf16, 8, 32>();
    test_wmma<half, 16, 16, half>();
    test_wmma<float, 16, 16>();
  });
}

struct MoveMatrix {
  static constexpr int kThreads = 32;
  struct Arguments {
    uint32_t* y;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const int row = lane_index() / 4;
    const int column = lane_index() % 4 * 2;
    const uint32_t pair = element(0, row, column) | uint32_t{element(0, row, column + 1)} << 16;
    arguments.y[lane_index()] = ptx::movmatrix_trans(pair);
  }
};

TEST(Matrix, IsTransposedInRegisters) {
  test::in_every_order([] {
    test::Buffer<uint32_t> y(32);
    test::run<MoveMatrix>({.threads = 32}, {y.data()});
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4;
      const int column = lane % 4 * 2;
      const uint32_t expected = element(0, column, row) | uint32_t{element(0, column + 1, row)}
                                                              << 16;
      ASSERT_EQ(y[static_cast<size_t>(lane)], expected) << lane;
    }
  });
}

template <bool kTiesToEven>
struct RoundToTf32 {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* from;
    float* to;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const float value = arguments.from[lane_index()];
    arguments.to[lane_index()] =
        kTiesToEven ? ptx::cvt_rn_tf32_f32(value) : ptx::cvt_rna_tf32_f32(value);
  }
};

// Pairs of bits, before and after.
template <bool kTiesToEven, size_t kCount>
void test_rounding(const std::pair<uint32_t, uint32_t> (&rounded)[kCount]) {
  test::Buffer<float> from(32);
  test::Buffer<float> to(32);
  for (size_t i = 0; i < 32; ++i) from[i] = std::bit_cast<float>(rounded[i % kCount].first);
  test::run<RoundToTf32<kTiesToEven>>({.threads = 32}, {from.data(), to.data()});
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(to[i]), rounded[i % kCount].second) << i % kCount;
  }
}

TEST(Tf32, IsRoundedToNearestTiesAwayFromZero) {
  test_rounding<false>({{0x00000000, 0x00000000},
                        {0x80000000, 0x80000000},
                        {0x3F800000, 0x3F800000},
                        {0x3F800FFF, 0x3F800000},
                        {0x3F801000, 0x3F802000},
                        {0xBF801000, 0xBF802000},
                        {0x3F803000, 0x3F804000},
                        {0x3FFFF000, 0x40000000},
                        {0x00001000, 0x00002000},
                        {0x7F7FEFFF, 0x7F7FE000},
                        {0x7F7FFFFF, 0x7F800000},
                        {0xFF800000, 0xFF800000}});
}

TEST(Tf32, IsRoundedToNearestTiesToEven) {
  test_rounding<true>({{0x00000000, 0x00000000},
                       {0x80000000, 0x80000000},
                       {0x3F800FFF, 0x3F800000},
                       {0x3F801000, 0x3F800000},
                       {0x3F801001, 0x3F802000},
                       {0xBF801000, 0xBF800000},
                       {0x3F803000, 0x3F804000},
                       {0x3FFFF000, 0x40000000},
                       {0x00001000, 0x00000000},
                       {0x7F7FEFFF, 0x7F7FE000},
                       {0x7F7FFFFF, 0x7F800000},
                       {0xFF800000, 0xFF800000}});
}

}  // namespace
}  // namespace ws
