#include "warpsmith/shared.hpp"

#include "emulator/async.hpp"
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/address.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"

namespace ws::emulator {
namespace {

struct Storage {
  SharedArray<float, 64> x;
  SharedArray<int, 8> y;
};
constexpr LaunchShape kShape{1, 64, 1, sizeof(Storage)};
Storage& storage(std::byte* shared) { return at<Storage>(shared, 0); }

TEST(SharedMemory, HoldsWhatIsWritten) {
  run_kernel(kShape, [](std::byte* shared) {
    Storage& s = storage(shared);
    s.x[thread_index()] = 2.0f * thread_index();
    ptx::barrier_sync();
    const float other = s.x[63 - thread_index()];
    EXPECT_EQ(other, 2.0f * (63 - thread_index()));
    ptx::barrier_sync();
    Vec<float, 4> four{};
    if (thread_index() < 16) four = s.x.load<4>((15 - thread_index()) * 4);
    ptx::barrier_sync();
    if (thread_index() < 16) s.x.store<4>(thread_index() * 4, four);
  });
}

TEST(SharedMemory, BeginsUnwrittenInEveryBlock) {
  expect_fault(Fault::kUnwrittenRead, "shared load reads shared byte 12, which nothing has written",
               kShape, [](std::byte* shared) {
                 if (thread_index() == 3) static_cast<void>(float{storage(shared).x[3]});
               });
  // The second block does not see what the first has left.
  const Options before = options();
  options().workers = 1;
  expect_fault(Fault::kUnwrittenRead, "nothing has written", {2, 1, 1, 256}, [](std::byte* shared) {
    static int runs;
    if (runs++ % 2 == 1) static_cast<void>(load_shared<int>(shared, 0));
    store_shared(shared, 0, 1);
  });
  options() = before;
}

TEST(SharedMemory, KnowsItsBounds) {
  for (const int64_t index : {int64_t{-1}, int64_t{64}, int64_t{1} << 40}) {
    expect_fault(Fault::kOutOfRange, "of 64", kShape,
                 [=](std::byte* shared) { storage(shared).x[index] = 1.0f; });
  }
  expect_fault(Fault::kOutOfRange, "shared elements [62, 66) of 64", kShape,
               [](std::byte* shared) { storage(shared).x.store<4>(62, Vec<float, 4>{}); });
  expect_fault(Fault::kOutOfRange, "not in shared memory", kShape,
               [](std::byte* shared) { read_shared(shared + sizeof(Storage), 4, "shared load"); });
  expect_fault(Fault::kOutOfRange, "bytes [286, 290) of 288 bytes", {1, 1, 1, 288},
               [](std::byte* shared) { read_shared(shared + 286, 4, "shared load"); });
}

TEST(SharedMemory, KnowsAlignment) {
  expect_fault(Fault::kMisaligned, "shared load of 16 bytes at shared byte 8", kShape,
               [](std::byte* shared) { static_cast<void>(storage(shared).x.load<4>(2)); });
}

TEST(SharedMemory, AddressesGoBothWays) {
  run_kernel({4, 1, 4, 512}, [](std::byte* shared) {
    ptx::cluster_sync();
    const uint32_t mine = ptx::shared_address(shared + 100);
    EXPECT_EQ(mine, kSharedWindowBase + 100);
    EXPECT_EQ(shared_pointer(mine), shared + 100);
    for (int rank = 0; rank < 4; ++rank) {
      const std::byte* there = block_of_cluster(rank).shared + 100;
      const uint32_t address = ptx::map_shared_rank(shared + 100, rank);
      EXPECT_EQ(shared_pointer(address), there);
      EXPECT_EQ(shared_address(there), rank == cluster_rank() ? mine : address);
    }
    ptx::cluster_sync();
  });
  expect_fault(Fault::kInvalidUse, "not in shared memory", {1, 1, 1, 64}, [](std::byte*) {
    int local = 0;
    shared_address(&local);
  });
  expect_fault(Fault::kOutOfRange, "shared address 1088 of a window [1024, 1088)", {1, 1, 1, 64},
               [](std::byte*) { shared_pointer(kSharedWindowBase + 64); });
  expect_fault(Fault::kOutOfRange, "cluster rank 2 of 2", {2, 1, 2, 64},
               [](std::byte* shared) { map_shared_rank(shared, 2); });
}

TEST(SharedMemory, DynamicPartFollowsTheStatic) {
  run_kernel({1, 1, 1, sizeof(Storage) + 64}, [](std::byte* shared) {
    const SharedSpan<int> rest = dynamic_shared<int>(storage(shared), 16);
    EXPECT_EQ(reinterpret_cast<std::byte*>(rest.pointer()), shared + sizeof(Storage));
    rest[15] = 3;
    EXPECT_EQ(int{rest[15]}, 3);
  });
}

}  // namespace
}  // namespace ws::emulator
