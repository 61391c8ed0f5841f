// What a launch may ask for: registers moved by setmaxnreg, the blocks of a cooperative launch; and
// .aligned instructions, which all lanes of a warp execute at one place. Each kernel with its
// planted bugs, and its correct form.
#include "tests/emulator/products.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/stmatrix.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;

// ---- setmaxnreg --------------------------------------------------------------------------------

// A producing warpgroup and consuming ones, as warp-specialised kernels begin. Launched with 65536
// / (threads x blocks an SM) registers a thread, down to a multiple of 8. kProducer is 0 where the
// producer keeps what it has.
template <int kGroups, int kBlocksPerMultiprocessor, int kProducer, int kConsumer>
struct Specialized {
  static constexpr int kThreads = 128 * kGroups;
  static constexpr int kMinBlocks = kBlocksPerMultiprocessor;
  static constexpr Arch kArch = Arch::kSm90a;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {
    SharedArray<int, 1> x;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() < 128) {
      if constexpr (kProducer != 0) ptx::setmaxnreg_dec<kProducer>();
      if (thread_index() == 0) shared.x[0] = 3;
    } else {
      ptx::setmaxnreg_inc<kConsumer>();
    }
    ptx::barrier_sync();
    thread::store(a.out + thread_index(), int{shared.x[0]});
  }
};

template <class Kernel>
Result specialized() {
  test::Buffer<int> out(Kernel::kThreads);
  test::run<Kernel>({.threads = Kernel::kThreads}, {out.data()});
  return equal(out, [](int) { return 3; });
}
// The kernel with these counts passes, the other one's do not.
template <class Correct, class Broken>
void expect_registers(Fault fault) {
  expect_passes(specialized<Correct>);
  expect_named({fault}, specialized<Broken>);
}

// 384 threads: 168 registers each, 64512 in all.
TEST(Registers, MoreThanTheProducerGives) {  // 128 x (40 + 2 x 240) = 66560
  expect_registers<Specialized<3, 1, 40, 232>, Specialized<3, 1, 40, 240>>(Fault::kDeadlock);
}
TEST(Registers, ProducerGivesNothing) {
  expect_registers<Specialized<3, 1, 24, 240>, Specialized<3, 1, 0, 240>>(Fault::kDeadlock);
}
TEST(Registers, DecreaseToMore) {
  expect_registers<Specialized<3, 1, 152, 176>, Specialized<3, 1, 176, 176>>(Fault::kInvalidUse);
}
TEST(Registers, IncreaseToLess) {  // counts of a kernel with four warpgroups: 128 registers there
  expect_registers<Specialized<4, 1, 32, 160>, Specialized<3, 1, 32, 160>>(Fault::kInvalidUse);
}
// 256 threads, two blocks an SM: 128 registers each, 32768 in all.
TEST(Registers, CountsOfOneBlockAMultiprocessor) {
  expect_registers<Specialized<2, 2, 64, 192>, Specialized<2, 2, 24, 240>>(Fault::kDeadlock);
}

// Two warpgroups hand registers to each other. Planted: the second one is never given them back.
template <bool kBroken>
struct HandOver {
  static constexpr int kThreads = 256;
  static constexpr int kMinBlocks = 2;  // 128 registers a thread
  static constexpr Arch kArch = Arch::kSm90a;
  struct Arguments {
    int* out;
  };
  struct SharedStorage {
    SharedArray<int, 256> x;
  };
  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int me = thread_index();
    if (me < 128) {
      ptx::setmaxnreg_dec<56>();
      shared.x[me] = me;
      if constexpr (!kBroken) ptx::barrier_sync(1, 256);
      ptx::setmaxnreg_inc<200>();
      if constexpr (kBroken) ptx::barrier_sync(1, 256);
    } else {
      ptx::setmaxnreg_inc<200>();
      shared.x[me] = me;
      if constexpr (kBroken) ptx::barrier_sync(1, 256);  // the other waits for registers meanwhile
      ptx::setmaxnreg_dec<56>();
      if constexpr (!kBroken) ptx::barrier_sync(1, 256);
    }
    ptx::barrier_sync();
    thread::store(a.out + me, int{shared.x[255 - me]});
  }
};
template <bool kBroken>
Result hand_over() {
  test::Buffer<int> out(256);
  test::run<HandOver<kBroken>>({.threads = 256}, {out.data()});
  return equal(out, [](int i) { return 255 - i; });
}
TEST(Registers, HandedOverTooLate) {
  expect_passes(hand_over<false>);
  expect_named({Fault::kDeadlock}, hand_over<true>);
}

// ---- Cooperative launches ----------------------------------------------------------------------

Result meet(const LaunchShape& shape) {
  test::Buffer<uint32_t> counter(1);
  test::Buffer<int> met(1);
  launch(shape, [&](std::byte*) {
    ptx::grid_sync(counter.data());
    if (thread_index() == 0) ptx::red_global_add(met.data(), 1);
  });
  return equal(met, [&](int) { return shape.blocks; });
}
constexpr int kMultiprocessors = 132;  // of an H200

TEST(Residency, SharedMemory) {  // of 228 KiB a multiprocessor
  const auto shape = [](int64_t blocks, size_t bytes) {
    return LaunchShape{.blocks = blocks, .threads = 32, .shared_bytes = bytes, .cooperative = true};
  };
  expect_passes([&] { return meet(shape(kMultiprocessors, 200 * 1024)); }, 2);
  expect_named({Fault::kInvalidUse}, [&] { return meet(shape(kMultiprocessors + 1, 200 * 1024)); });
  // Two blocks of half the memory each do not fit: a block takes 1 KiB beside its own.
  expect_named({Fault::kInvalidUse}, [&] { return meet(shape(kMultiprocessors + 1, 114 * 1024)); });
}
TEST(Residency, Threads) {  // 2048 a multiprocessor
  const auto shape = [](int64_t blocks, int threads) {
    return LaunchShape{.blocks = blocks, .threads = threads, .cooperative = true};
  };
  expect_passes([&] { return meet(shape(8, 1024)); }, 2);
  expect_named({Fault::kInvalidUse}, [&] { return meet(shape(2 * kMultiprocessors + 1, 1024)); });
  expect_named({Fault::kInvalidUse}, [&] { return meet(shape(2 * kMultiprocessors + 1, 704)); });
}
TEST(Residency, Blocks) {  // 32 a multiprocessor, however small they are
  expect_passes([] { return meet({.blocks = 264, .threads = 32, .cooperative = true}); }, 2);
  expect_named({Fault::kInvalidUse}, [] {
    return meet({.blocks = 32 * kMultiprocessors + 1, .threads = 32, .cooperative = true});
  });
}

// ---- .aligned ----------------------------------------------------------------------------------

// Two places are the bug. NOLINTBEGIN(bugprone-branch-clone)

// Planted: the lanes of a warp execute the instruction at two places, each half in its branch.
Result two_barriers(bool broken) {
  test::Buffer<int> out(64);
  launch({.threads = 64}, [&](std::byte*) {
    if (broken && lane_index() < 16) {
      ptx::barrier_sync(1, 64);
    } else {
      ptx::barrier_sync(1, 64);
    }
    thread::store(out.data() + thread_index(), 1);
  });
  return equal(out, [](int) { return 1; });
}
TEST(Aligned, Barrier) { expect_planted({Fault::kDivergence}, two_barriers); }

// Planted: the last row of threads takes a branch of its own to the block's barrier.
Result two_block_barriers(bool broken) {
  struct Storage {
    SharedArray<int, 64> x;
  };
  test::Buffer<int> out(64);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    if (broken) {
      if (me < 50) {
        shared.x[me] = me;
        ptx::barrier_sync();
      } else {
        shared.x[me] = 0;
        ptx::barrier_sync();
      }
    } else {
      shared.x[me] = me < 50 ? me : 0;
      ptx::barrier_sync();
    }
    thread::store(out.data() + me, int{shared.x[63 - me]});
  });
  return equal(out, [](int i) { return 63 - i < 50 ? 63 - i : 0; });
}
TEST(Aligned, BarrierOfTheBlock) { expect_planted({Fault::kDivergence}, two_block_barriers); }

// Planted: thread 0 arrives at the cluster's barrier behind its own work.
Result two_cluster_arrivals(bool broken) {
  test::Buffer<int> out(2);
  launch({.blocks = 2, .threads = 32, .cluster = 2}, [&](std::byte*) {
    if (broken && thread_index() == 0) {
      thread::store(out.data() + block_index(), 1);
      ptx::cluster_arrive();
    } else {
      if (thread_index() == 0) thread::store(out.data() + block_index(), 1);
      ptx::cluster_arrive();
    }
    ptx::cluster_wait();
  });
  return equal(out, [](int) { return 1; });
}
TEST(Aligned, ClusterArrival) { expect_planted({Fault::kDivergence}, two_cluster_arrivals); }

enum class MatrixBug { kNone, kLoad, kStore, kMultiply };

// Planted: half the lanes load from, store to or multiply something else, in a branch of theirs.
Result matrices(MatrixBug bug) {
  struct Storage {
    SharedArray<half, 256, 128> from;
    SharedArray<half, 256, 128> to;
  };
  test::Buffer<float> out(32);
  launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
    const int lane = lane_index();
    for (int i = lane; i < 256; i += 32) shared.from[i] = half(1.0F);
    ptx::syncwarp();
    uint32_t a[4];
    const half* row = shared.from.pointer(lane * 8);
    if (bug == MatrixBug::kLoad && lane >= 16) {
      ptx::ldmatrix_x4(a, row);
    } else {
      ptx::ldmatrix_x4(a, row);
    }
    if (bug == MatrixBug::kStore && lane >= 16) {
      ptx::stmatrix_x4(shared.to.pointer(lane * 8), a);
    } else {
      ptx::stmatrix_x4(shared.to.pointer(lane * 8), a);
    }
    ptx::syncwarp();
    const uint32_t b[2] = {a[0], a[1]};
    float d[4] = {};
    if (bug == MatrixBug::kMultiply && lane >= 16) {
      ptx::mma_m16n8k16<half>(d, a, b, d);
    } else {
      ptx::mma_m16n8k16<half>(d, a, b, d);
    }
    const half stored = shared.to[lane];
    thread::store(out.data() + lane, d[0] + to_float(stored));
  });
  return equal(out, [](int) { return 17; });
}
TEST(Aligned, Ldmatrix) { expect_planted({Fault::kDivergence}, matrices, MatrixBug::kLoad); }
TEST(Aligned, Stmatrix) { expect_planted({Fault::kDivergence}, matrices, MatrixBug::kStore); }
TEST(Aligned, Mma) { expect_planted({Fault::kDivergence}, matrices, MatrixBug::kMultiply); }

enum class ProductBug { kNone, kProduct, kWait };

// Planted: the lanes whose rows lie in the matrix issue their product at one place, the others at
// another; or wait for it so. Whole warps may.
Result products(ProductBug bug) {
  test::Buffer<float> out(64 * 16);
  launch_with<Operands>({.threads = 128}, [&](Operands& shared) {
    shared.fill();
    const uint64_t a = shared.a.descriptor();
    const uint64_t b = shared.b.descriptor();
    const bool inside = row_of(0) < 36;  // warps 0 and 1, and half of the lanes of warp 2
    float d[8] = {};
    ptx::wgmma_fence(d);
    if (bug == ProductBug::kProduct && inside) {
      ptx::wgmma_m64k16<16, half>(d, a, b, false);
    } else {
      ptx::wgmma_m64k16<16, half>(d, a, b, false);
    }
    ptx::wgmma_commit_group();
    if (bug == ProductBug::kWait ? inside : warp_index() < 2) {
      ptx::wgmma_wait_group<0>(d);
    } else {
      ptx::wgmma_wait_group<0>(d);
    }
    store_d(out.data(), d);
  });
  return is_product(out);
}
TEST(Aligned, Wgmma) { expect_planted({Fault::kDivergence}, products, ProductBug::kProduct); }
TEST(Aligned, WgmmaWait) { expect_planted({Fault::kDivergence}, products, ProductBug::kWait); }

// NOLINTEND(bugprone-branch-clone)

}  // namespace
}  // namespace ws::emulator
