#include "warpsmith/ptx/atomic.hpp"

#include "tests/run.hpp"
#include "warpsmith/ptx/atomic_double.hpp"
#include "warpsmith/ptx/atomic_vector.hpp"

namespace ws {
namespace {

constexpr int kBlocks = 16;
constexpr int kBlockThreads = 64;
constexpr int kTotal = kBlocks * kBlockThreads;

struct Sums {
  float f;
  float f_red;
  int32_t i;
  uint32_t u;
  uint32_t u_red;
  uint64_t l;
  uint64_t l_red;
  int32_t max;
  uint32_t unsigned_max;
  uint32_t lock;
  uint64_t locked_count;
  uint32_t exchanged;
};

struct AllAtomics {
  static constexpr int kThreads = kBlockThreads;
  struct Arguments {
    Sums* sums;
    half* h;            // 3
    bf16* b;            // 2
    uint32_t* tickets;  // kTotal: which tickets were handed out
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    Sums& sums = *arguments.sums;
    const auto rank = static_cast<int32_t>(block_index() * kBlockThreads + thread_index());
    ptx::atom_global_add(&sums.f, 1.0f);
    ptx::red_global_add(&sums.f_red, 0.5f);
    ptx::red_global_add(&sums.i, rank % 2 == 0 ? -3 : 1);
    const uint32_t ticket = ptx::atom_global_add(&sums.u, 1u);
    ptx::red_global_add(&arguments.tickets[ticket], 1u);
    ptx::red_global_add(&sums.u_red, 2u);
    ptx::atom_global_add(&sums.l, uint64_t{1} << 33);
    ptx::red_global_add(&sums.l_red, uint64_t{1} << 34);
    ptx::atom_global_max(&sums.max, rank - 5000);
    ptx::atom_global_max(&sums.unsigned_max, static_cast<uint32_t>(rank));
    ptx::red_global_add_noftz_x2(arguments.h, Vec<half, 2>{{half(1.0f), half(-0.5f)}});
    ptx::red_global_add_noftz(arguments.h + 2, half(0.25f));
    ptx::red_global_add_noftz_x2(arguments.b, Vec<bf16, 2>{{bf16(0.125f), bf16(-0.25f)}});
    // One thread of a warp takes the lock, so that the warp cannot wait for itself.
    if (lane_index() == 0) {
      while (ptx::atom_global_cas(&sums.lock, 0, 1) != 0) {
      }
      ptx::red_global_add(&sums.locked_count, 1);
      ptx::atom_global_exch(&sums.lock, 0);
    }
    if (rank == 77) ptx::atom_global_exch(&sums.exchanged, 99);
  }
};

TEST(Atomic, ManyBlocks) {
  test::in_every_order([] {
    test::Buffer<Sums> sums(1);
    sums[0].max = -100000;
    test::Buffer<half> h(3);
    test::Buffer<bf16> b(2);
    test::Buffer<uint32_t> tickets(kTotal);
    test::run<AllAtomics>({.blocks = kBlocks, .threads = kBlockThreads},
                          {sums.data(), h.data(), b.data(), tickets.data()});
    EXPECT_EQ(sums[0].f, kTotal);
    EXPECT_EQ(sums[0].f_red, kTotal / 2);
    EXPECT_EQ(sums[0].i, -kTotal);
    EXPECT_EQ(sums[0].u, kTotal);
    EXPECT_EQ(sums[0].u_red, 2 * kTotal);
    EXPECT_EQ(sums[0].l, uint64_t{kTotal} << 33);
    EXPECT_EQ(sums[0].l_red, uint64_t{kTotal} << 34);
    EXPECT_EQ(sums[0].max, kTotal - 1 - 5000);
    EXPECT_EQ(sums[0].unsigned_max, kTotal - 1);
    EXPECT_EQ(sums[0].locked_count, kTotal / 32);
    EXPECT_EQ(sums[0].lock, 0);
    EXPECT_EQ(sums[0].exchanged, 99);
    for (uint32_t ticket : tickets) EXPECT_EQ(ticket, 1);
    EXPECT_EQ(static_cast<float>(h[0]), 1024.0f);
    EXPECT_EQ(static_cast<float>(h[1]), -512.0f);
    EXPECT_EQ(static_cast<float>(h[2]), 256.0f);
    EXPECT_EQ(static_cast<float>(b[0]), 32.0f);  // 0.125 is half an ulp of 32: ties stay
    EXPECT_EQ(static_cast<float>(b[1]), -64.0f);
  });
}

struct AddVectors {
  static constexpr int kThreads = kBlockThreads;
  struct Arguments {
    float* f;
    half* h;
    bf16* b;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    Vec<half, 8> h;
    Vec<bf16, 8> b;
    for (int i = 0; i < 8; ++i) {
      h[i] = half(static_cast<float>(i) / 8);
      b[i] = bf16(-static_cast<float>(1 << i) / 64);  // so that no sum is rounded
    }
    ptx::red_global_add(arguments.f, Vec<float, 4>{{1, -2, 0.5f, 4}});
    ptx::red_global_add_noftz_x8(arguments.h, h);
    ptx::red_global_add_noftz_x8(arguments.b, b);
  }
};

TEST(Atomic, OfVectors) {
  test::in_every_order([] {
    test::Buffer<float> f(5);
    test::Buffer<half> h(9);
    test::Buffer<bf16> b(9);
    test::run<AddVectors>({.blocks = 2, .threads = kBlockThreads}, {f.data(), h.data(), b.data()});
    constexpr float kThreads = 2 * kBlockThreads;
    const float wanted[] = {kThreads, -2 * kThreads, kThreads / 2, 4 * kThreads, 0};
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(f[i], wanted[i]) << i;
    for (size_t i = 0; i < 9; ++i) {
      const float times = i < 8 ? kThreads : 0;
      EXPECT_EQ(static_cast<float>(h[i]), times * static_cast<float>(i) / 8) << i;
      EXPECT_EQ(static_cast<float>(b[i]), -times * static_cast<float>(1 << i) / 64) << i;
    }
  });
}

struct AddDouble {
  static constexpr int kThreads = kBlockThreads;
  struct Arguments {
    double* sum;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    ptx::red_global_add(arguments.sum, 1 + 0x1p-40);
  }
};

TEST(Atomic, OfDouble) {
  test::in_every_order([] {
    test::Buffer<double> sum(1);
    test::run<AddDouble>({.blocks = kBlocks, .threads = kBlockThreads}, {sum.data()});
    EXPECT_EQ(sum[0], kTotal * (1 + 0x1p-40));
  });
}

#ifdef WS_EMULATED
struct AddUnalignedVector {
  static constexpr int kThreads = 1;
  struct Arguments {
    float* f;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    ptx::red_global_add(arguments.f, Vec<float, 4>{{1, 1, 1, 1}});
  }
};

TEST(Atomic, VectorsAreAligned) {
  test::Buffer<float> f(8);
  test::expect_fault<AddUnalignedVector>(emulator::Fault::kMisaligned, "red.global.add.v4", {},
                                         {f.data() + 1});
}

struct AddFloat {
  static constexpr int kThreads = 1;
  struct Arguments {
    float* sum;
    bool shared;
  };
  struct SharedStorage {
    float sum[1];
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    ptx::red_global_add(arguments.shared ? shared.sum : arguments.sum, 1.0f);
  }
};

TEST(Atomic, Faults) {
  test::Buffer<float> sum(2);
  auto* misaligned = reinterpret_cast<float*>(reinterpret_cast<char*>(sum.data()) + 2);
  test::expect_fault<AddFloat>(emulator::Fault::kMisaligned, "atom.global.add", {},
                               {misaligned, false});
  test::expect_fault<AddFloat>(emulator::Fault::kInvalidUse, "in shared memory", {},
                               {sum.data(), true});
}

TEST(Atomic, AreCounted) {
  test::Buffer<float> sum(1);
  emulator::reset_counts();
  test::run<AddFloat>({.blocks = 5}, {sum.data(), false});
  EXPECT_EQ(emulator::counts()[static_cast<size_t>(emulator::Count::kAtomics)], 5);
}
#endif

}  // namespace
}  // namespace ws
