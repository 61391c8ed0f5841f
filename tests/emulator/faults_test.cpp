// What the instructions' models must refuse.
#include <array>

#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {
namespace {

constexpr Fault kInvalid = Fault::kInvalidUse;

// ---- Barriers ----------------------------------------------------------------------------------

TEST(BarrierFault, CountOfThreads) {
  for (const int threads : {0, -32, 33, 96}) {
    expect_fault(kInvalid, "is not a multiple of 32 up to 64", {1, 64},
                 [=](std::byte*) { ptx::barrier_sync(1, threads); });
  }
  expect_fault(kInvalid, "32 threads expected, but 64", {1, 64}, [](std::byte*) {
    if (warp_index() == 0) ptx::barrier_arrive(1, 64);
    ptx::barrier_sync(0, 64);
    if (warp_index() == 1) ptx::barrier_sync(1, 32);
  });
}

TEST(BarrierFault, Number) {
  expect_fault(Fault::kOutOfRange, "barrier 16 of 16", {1, 32},
               [](std::byte*) { ptx::barrier_sync(16, 32); });
}

TEST(BarrierFault, SecondArrival) {
  expect_fault(kInvalid, "arrives a second time", {1, 64}, [](std::byte*) {
    if (warp_index() == 0) {
      ptx::barrier_arrive(1, 64);
      ptx::barrier_arrive(1, 64);
    }
  });
}

TEST(BarrierFault, PartOfAWarp) {
  // Warp 0 comes with half its lanes; warps 1 and 2 complete the barrier.
  expect_fault(Fault::kDivergence, "lanes of a warp execute it at two places", {1, 96},
               [](std::byte*) {
                 if (warp_index() == 0 && lane_index() < 16) ptx::barrier_arrive(1, 64);
                 ptx::barrier_sync();
                 if (warp_index() > 0) ptx::barrier_sync(1, 64);
               });
}

TEST(BarrierFault, Cluster) {
  expect_fault(kInvalid, "barrier.cluster.arrive twice", {2, 32, 2}, [](std::byte*) {
    ptx::cluster_arrive();
    ptx::cluster_arrive();
  });
  expect_fault(kInvalid, "without barrier.cluster.arrive", {2, 32, 2},
               [](std::byte*) { ptx::cluster_wait(); });
}

TEST(BarrierFault, Grid) {
  uint32_t counter = 0;
  expect_fault(kInvalid, "not cooperative", {2, 32}, [&](std::byte*) { ptx::grid_sync(&counter); });
  uint32_t garbage = 5;
  expect_fault(kInvalid, "its counter is 5", {.blocks = 2, .threads = 32, .cooperative = true},
               [&](std::byte*) { ptx::grid_sync(&garbage); });
}

TEST(OverlapFault, GlobalMemoryBeforeTheWait) {
  const LaunchShape shape{.blocks = 2, .threads = 32, .overlaps = true};
  float x = 0;
  alignas(16) std::array<float, 4> four{};
  expect_fault(kInvalid, "ld.global before griddepcontrol.wait", shape,
               [&](std::byte*) { thread::load(&x); });
  expect_fault(kInvalid, "st.global before griddepcontrol.wait", shape,
               [&](std::byte*) { thread::store(&x, 1.0F); });
  expect_fault(kInvalid, "cp.async before griddepcontrol.wait",
               {.blocks = 1, .threads = 32, .shared_bytes = 16, .overlaps = true},
               [&](std::byte* shared) { ptx::cp_async<16>(shared, four.data()); });
  run_kernel(shape, [&](std::byte*) {
    ptx::griddepcontrol_wait();
    thread::load(&x);
  });
}

// ---- mbarrier ----------------------------------------------------------------------------------

// A block with an mbarrier at byte 0, which thread 0 has initialised for `count` arrivals; then
// body.
template <class Body>
auto with_mbarrier(uint32_t count, Body body) {
  return [=](std::byte* shared) {
    auto& barrier = at<ptx::Mbarrier>(shared, 0);
    if (thread_index() == 0) {
      ptx::mbarrier_init(barrier, count);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    body(barrier, shared);
  };
}
constexpr LaunchShape kBlock{1, 64, 1, 4096};

TEST(MbarrierFault, UseBeforeInit) {
  expect_fault(kInvalid, "has not been initialised", kBlock,
               [](std::byte* shared) { ptx::mbarrier_arrive(at<ptx::Mbarrier>(shared, 8)); });
  expect_fault(kInvalid, "has not been initialised", kBlock, [](std::byte* shared) {
    ptx::mbarrier_wait_parity(at<ptx::Mbarrier>(shared, 8), 0);
  });
}

TEST(MbarrierFault, BadInit) {
  for (const uint32_t count : {0u, 1u << 20}) {
    expect_fault(kInvalid, "arrivals, [1, 1048575]", kBlock, with_mbarrier(count, [](auto&...) {}));
  }
  expect_fault(kInvalid, "there is a valid mbarrier", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte*) {
                 if (thread_index() == 5) ptx::mbarrier_init(barrier, 1);
               }));
  expect_fault(Fault::kMisaligned, "not a multiple of 8", kBlock,
               [](std::byte* shared) { mbarrier_init(shared + 4, 1); });
}

TEST(MbarrierFault, Overwritten) {
  expect_fault(kInvalid, "overwrites shared byte 4, part of an mbarrier", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier&, std::byte* shared) {
                 if (thread_index() == 0) store_shared(shared, 4, 1);
               }));
  expect_fault(kInvalid, "has been overwritten", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte*) {
                 if (thread_index() != 0) return;
                 barrier.opaque = 0;
                 ptx::mbarrier_arrive(barrier);
               }));
}

TEST(MbarrierFault, TooManyArrivals) {
  // The phase waits for bytes, so that one arrival is all it takes.
  expect_fault(kInvalid, "more arrivals than the phase expects", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte*) {
                 if (thread_index() < 2) ptx::mbarrier_arrive_expect_tx(barrier, 16);
               }));
}

TEST(MbarrierFault, TooManyBytes) {
  expect_fault(kInvalid, "is outside [-1048575, 1048575]", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte*) {
                 if (thread_index() < 2) ptx::mbarrier_expect_tx(barrier, 1000000);
               }));
}

TEST(MbarrierFault, TwoPhasesWhileAThreadWaits) {
  expect_fault(kInvalid, "completed two phases while this thread waited for phase 0", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte*) {
                 if (warp_index() == 0) {
                   ptx::barrier_arrive(1, 64);
                   ptx::mbarrier_wait_parity(barrier, 0);
                 } else {
                   ptx::barrier_sync(1, 64);
                   // By now, or soon, warp 0 waits for phase 0.
                   for (int i = 0; i < 3; ++i) yield("letting warp 0 wait");
                   if (lane_index() == 0) {
                     ptx::mbarrier_arrive(barrier);
                     ptx::mbarrier_arrive(barrier);
                   }
                 }
               }));
}

TEST(MbarrierFault, NotFencedForTheCluster) {
  expect_fault(kInvalid, "without fence.mbarrier_init", {2, 32, 2, 64}, [](std::byte* shared) {
    auto& barrier = at<ptx::Mbarrier>(shared, 0);
    if (thread_index() == 0) ptx::mbarrier_init(barrier, 1);
    ptx::cluster_sync();
    if (thread_index() == 0) ptx::mbarrier_arrive_cluster(barrier, 1 - cluster_rank());
    ptx::cluster_sync();
  });
}

TEST(MbarrierFault, NotFencedForTheAsyncProxy) {
  alignas(16) static const std::array<int, 4> source{};
  expect_fault(kInvalid, "without fence.mbarrier_init", kBlock, [](std::byte* shared) {
    auto& barrier = at<ptx::Mbarrier>(shared, 0);
    if (thread_index() != 0) return;
    ptx::mbarrier_init(barrier, 1);
    ptx::bulk_load(shared + 128, source.data(), 16, barrier);
  });
}

TEST(MbarrierFault, WrongNumberOfBytesIsADeadlockThatTellsThem) {
  alignas(16) static const std::array<int, 8> source{};
  expect_fault(Fault::kDeadlock, "16 bytes pending", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte* shared) {
                 if (thread_index() == 0) {
                   ptx::mbarrier_arrive_expect_tx(barrier, 48);
                   ptx::bulk_load(shared + 128, source.data(), 32, barrier);
                 }
                 ptx::mbarrier_wait_parity(barrier, 0);
               }));
}

// ---- Copies ------------------------------------------------------------------------------------

alignas(128) std::array<uint8_t, 4096> global_bytes{};

TEST(CopyFault, CpAsyncReadBeforeItsWait) {
  expect_fault(Fault::kUnwrittenRead, "whose copy has not landed", kBlock, [](std::byte* shared) {
    if (thread_index() != 0) return;
    ptx::cp_async<16>(shared, global_bytes.data());
    ptx::cp_async_commit_group();
    ptx::cp_async<16>(shared + 16, global_bytes.data());
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<1>();
    load_shared<int>(shared, 0);
    load_shared<int>(shared, 16);
  });
}

TEST(CopyFault, CpAsyncNeverCommitted) {
  expect_fault(Fault::kUnwrittenRead, "whose copy has not landed", kBlock, [](std::byte* shared) {
    if (thread_index() != 0) return;
    ptx::cp_async<4>(shared, global_bytes.data());
    ptx::cp_async_wait_group<0>();
    load_shared<int>(shared, 0);
  });
}

TEST(CopyFault, CpAsyncPlaces) {
  expect_fault(Fault::kMisaligned, "cp.async", kBlock,
               [](std::byte* shared) { ptx::cp_async<16>(shared + 8, global_bytes.data()); });
  expect_fault(Fault::kMisaligned, "cp.async: the global address", kBlock,
               [](std::byte* shared) { ptx::cp_async<8>(shared, global_bytes.data() + 4); });
  expect_fault(Fault::kMisaligned, "cp.async: the global address", kBlock,
               [](std::byte* shared) { ptx::cp_async<8>(shared, global_bytes.data() + 4, 0); });
  expect_fault(Fault::kOutOfRange, "17 source bytes of a copy of 16", kBlock,
               [](std::byte* shared) { ptx::cp_async<16>(shared, global_bytes.data(), 17); });
  expect_fault(kInvalid, "a global address in shared memory", kBlock,
               [](std::byte* shared) { ptx::cp_async<16>(shared, shared + 32); });
}

TEST(CopyFault, DestinationInFlightIsOverwritten) {
  expect_fault(kInvalid, "overwrites shared byte 0, to which a copy is in flight", kBlock,
               [](std::byte* shared) {
                 if (thread_index() != 0) return;
                 ptx::cp_async<16>(shared, global_bytes.data());
                 store_shared(shared, 0, 1);
               });
  expect_fault(kInvalid, "to which a copy is in flight", kBlock, [](std::byte* shared) {
    if (thread_index() != 0) return;
    ptx::cp_async<16>(shared, global_bytes.data());
    ptx::cp_async<16>(shared, global_bytes.data());
  });
}

TEST(CopyFault, BulkSizesAndPlaces) {
  const auto load = [](size_t to, size_t from, uint32_t bytes) {
    return with_mbarrier(1, [=](ptx::Mbarrier& barrier, std::byte* shared) {
      ptx::bulk_load(shared + to, global_bytes.data() + from, bytes, barrier);
    });
  };
  expect_fault(Fault::kMisaligned, "of 24 bytes", kBlock, load(128, 0, 24));
  expect_fault(Fault::kMisaligned, "at shared byte 136", kBlock, load(136, 0, 16));
  expect_fault(Fault::kMisaligned, "the global address", kBlock, load(128, 8, 16));
  expect_fault(Fault::kOutOfRange, "of 4096 bytes of shared memory", kBlock, load(4080, 0, 32));
}

TEST(CopyFault, BulkLoadReadBeforeItsWait) {
  expect_fault(Fault::kUnwrittenRead, "whose copy has not landed", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte* shared) {
                 if (thread_index() != 0) return;
                 ptx::mbarrier_arrive_expect_tx(barrier, 16);
                 ptx::bulk_load(shared + 128, global_bytes.data(), 16, barrier);
                 load_shared<int>(shared, 128);
               }));
}

TEST(CopyFault, ForgottenExpectTx) {
  expect_fault(Fault::kUnwrittenRead, "whose copy has not landed", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte* shared) {
                 if (thread_index() != 0) return;
                 ptx::bulk_load(shared + 128, global_bytes.data(), 16, barrier);
                 ptx::mbarrier_arrive(barrier);
                 ptx::mbarrier_wait_parity(barrier, 0);
                 load_shared<int>(shared, 128);
               }));
}

TEST(CopyFault, BlockExitsUnderACopy) {
  expect_fault(kInvalid, "the block exits while copies are in flight", kBlock,
               with_mbarrier(1, [](ptx::Mbarrier& barrier, std::byte* shared) {
                 if (thread_index() != 0) return;
                 ptx::mbarrier_arrive_expect_tx(barrier, 16);
                 ptx::bulk_load(shared + 128, global_bytes.data(), 16, barrier);
               }));
}

// A store of 16 bytes from shared byte 0, written and fenced; then body.
template <class Body>
auto with_bulk_store(Body body) {
  return [=](std::byte* shared) {
    if (thread_index() != 0) return;
    for (size_t i = 0; i < 4; ++i) store_shared(shared, i * 4, 1);
    ptx::fence_proxy_async();
    ptx::bulk_store(global_bytes.data(), shared, 16);
    body(shared);
  };
}

TEST(CopyFault, SourceOfAStoreIsOverwritten) {
  expect_fault(kInvalid, "which a copy or wgmma in flight still reads", kBlock,
               with_bulk_store([](std::byte* shared) {
                 ptx::bulk_commit_group();
                 store_shared(shared, 4, 2);
               }));
  // Waiting for all but one group is not enough.
  expect_fault(kInvalid, "which a copy or wgmma in flight still reads", kBlock,
               with_bulk_store([](std::byte* shared) {
                 ptx::bulk_commit_group();
                 ptx::bulk_wait_group_read<1>();
                 store_shared(shared, 4, 2);
               }));
}

TEST(CopyFault, ThreadExitsUnderAStore) {
  expect_fault(kInvalid, "cp.async.bulk.wait_group.read must come first", kBlock,
               with_bulk_store([](std::byte*) { ptx::bulk_commit_group(); }));
  expect_fault(kInvalid, "has not committed", kBlock, with_bulk_store([](std::byte*) {}));
}

TEST(CopyFault, StoreWithoutFence) {
  expect_fault(kInvalid, "has written without fence.proxy.async after it", kBlock,
               [](std::byte* shared) {
                 const auto me = static_cast<size_t>(thread_index());
                 store_shared(shared, me * 4, thread_index());
                 if (me != 3) ptx::fence_proxy_async();
                 ptx::barrier_sync();
                 if (me == 0) ptx::bulk_store(global_bytes.data(), shared, 256);
               });
}

TEST(CopyFault, StoreOfUnwrittenBytes) {
  expect_fault(Fault::kUnwrittenRead, "nothing has written", kBlock, [](std::byte* shared) {
    if (thread_index() == 0) ptx::bulk_store(global_bytes.data(), shared, 16);
  });
}

TEST(Copy, StoreIsSeenAfterItsWaitAlone) {
  run_kernel(kBlock, with_bulk_store([](std::byte* shared) {
               global_bytes[0] = 9;
               ptx::bulk_commit_group();
               EXPECT_EQ(global_bytes[0], 9);
               ptx::bulk_wait_group_read<0>();
               store_shared(shared, 0, 2);  // comes too late to be stored
               EXPECT_EQ(global_bytes[0], 9);
               ptx::bulk_wait_group<0>();
               EXPECT_EQ(global_bytes[0], 1);
             }));
}

// ---- Tensor maps -------------------------------------------------------------------------------

TEST(TensorFault, Places) {
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(global_bytes.data(), 16, 64, 64, 4, 32, ptx::Swizzle::k32);
  expect_fault(Fault::kMisaligned, "at shared byte 192, which is not a multiple of 128", kBlock,
               with_mbarrier(1, [&](ptx::Mbarrier& barrier, std::byte* shared) {
                 ptx::tensor_load_2d(shared + 192, map, barrier, 0, 0);
               }));
  expect_fault(kInvalid, "was not encoded", kBlock,
               with_mbarrier(1, [&](ptx::Mbarrier& barrier, std::byte* shared) {
                 ptx::tensor_load_2d(shared + 128, ptx::TensorMap{}, barrier, 0, 0);
               }));
  const ptx::TensorMap line = ptx::make_tensor_map(
      {.base = global_bytes.data(), .element_bytes = 1, .rank = 1, .extents = {64}, .box = {16}});
  expect_fault(kInvalid, "2 coordinates for a tensor map of 1 dimensions", kBlock,
               with_mbarrier(1, [&](ptx::Mbarrier& barrier, std::byte* shared) {
                 ptx::tensor_load_2d(shared + 128, line, barrier, 0, 0);
               }));
}

TEST(TensorFault, MulticastMask) {
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(global_bytes.data(), 16, 64, 64, 4, 32, ptx::Swizzle::kNone);
  for (const uint16_t mask : {uint16_t{0}, uint16_t{4}}) {
    expect_fault(Fault::kOutOfRange, "for a cluster of 2 blocks", {2, 32, 2, 4096},
                 [&](std::byte* shared) {
                   auto& barrier = at<ptx::Mbarrier>(shared, 0);
                   if (thread_index() == 0) ptx::mbarrier_init(barrier, 1);
                   if (thread_index() == 0) ptx::fence_mbarrier_init();
                   ptx::cluster_sync();
                   ptx::tensor_load_2d_multicast(shared + 128, map, barrier, 0, 0, mask);
                 });
  }
}

TEST(TensorFault, LoadOverStoresWithoutFence) {
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(global_bytes.data(), 16, 64, 64, 4, 32, ptx::Swizzle::kNone);
  expect_fault(kInvalid, "has written without fence.proxy.async after it", kBlock,
               with_mbarrier(1, [&](ptx::Mbarrier& barrier, std::byte* shared) {
                 if (thread_index() != 0) return;
                 store_shared(shared, 128, 1);
                 ptx::tensor_load_2d(shared + 128, map, barrier, 0, 0);
               }));
}

// ---- Clusters ----------------------------------------------------------------------------------

TEST(ClusterFault, BlockThatHasLeft) {
  expect_fault(kInvalid, "a cluster kernel must end with a cluster barrier", {2, 32, 2, 64},
               [](std::byte* shared) {
                 if (thread_index() == 0) store_shared(shared, 0, 1);
                 ptx::cluster_sync();
                 if (cluster_rank() == 1) return;
                 yield("doing something else");  // until block 1 has gone
                 ptx::ld_shared_cluster<int>(ptx::map_shared_rank(shared, 1));
               });
}

TEST(ClusterFault, BlockThatHasNotBegun) {
  const Options before = options();
  options().order = Order::kForward;
  EXPECT_THROW(
      {
        try {
          launch({2, 32, 2, 64}, [](std::byte* shared) {
            ptx::st_shared_cluster(ptx::map_shared_rank(shared, 1 - cluster_rank()), 1);
          });
        } catch (const FaultError& error) {
          EXPECT_NE(std::string(error.what()).find("a cluster barrier must come first"),
                    std::string::npos)
              << error.what();
          throw;
        }
      },
      FaultError);
  options() = before;
}

TEST(ClusterFault, UnwrittenRemoteRead) {
  expect_fault(Fault::kUnwrittenRead, "ld.shared::cluster reads shared byte 0", {2, 32, 2, 64},
               [](std::byte* shared) {
                 ptx::cluster_sync();
                 ptx::ld_shared_cluster<int>(ptx::map_shared_rank(shared, 1 - cluster_rank()));
                 ptx::cluster_sync();
               });
}

TEST(ClusterFault, StAsyncReadBeforeItsWait) {
  expect_fault(Fault::kUnwrittenRead, "whose copy has not landed", {2, 32, 2, 64},
               [](std::byte* shared) {
                 auto& barrier = at<ptx::Mbarrier>(shared, 0);
                 if (thread_index() == 0) {
                   ptx::mbarrier_init(barrier, 1);
                   ptx::mbarrier_arrive_expect_tx(barrier, 4);
                   ptx::fence_mbarrier_init();
                 }
                 ptx::cluster_sync();
                 if (thread_index() == 0) {
                   const int other = 1 - cluster_rank();
                   ptx::st_async(ptx::map_shared_rank(shared + 16, other), 1,
                                 ptx::map_shared_rank(&barrier, other));
                 }
                 ptx::cluster_sync();
                 load_shared<int>(shared, 16);
               });
}

TEST(ClusterFault, StAsyncToTwoBlocks) {
  expect_fault(kInvalid, "destination and mbarrier are in different blocks", {2, 32, 2, 64},
               [](std::byte* shared) {
                 auto& barrier = at<ptx::Mbarrier>(shared, 0);
                 if (thread_index() == 0) ptx::mbarrier_init(barrier, 1);
                 if (thread_index() == 0) ptx::fence_mbarrier_init();
                 ptx::cluster_sync();
                 ptx::st_async(ptx::map_shared_rank(shared + 16, 0), 1,
                               ptx::map_shared_rank(&barrier, 1));
               });
}

// What a copy to another block still reads, which its own block cannot tell.
TEST(ClusterFault, StoreToTheSourceOfACopyInFlight) {
  expect_fault(kInvalid, "which a copy or wgmma in flight still reads", {2, 32, 2, 64},
               [](std::byte* shared) {
                 auto& barrier = at<ptx::Mbarrier>(shared, 0);
                 if (thread_index() == 0) {
                   ptx::mbarrier_init(barrier, 1);
                   ptx::mbarrier_arrive_expect_tx(barrier, 16);
                   ptx::fence_mbarrier_init();
                   for (size_t i = 16; i < 32; i += 4) store_shared(shared, i, 1);
                   ptx::fence_proxy_async();
                 }
                 ptx::cluster_sync();
                 if (thread_index() == 0) {
                   const int other = 1 - cluster_rank();
                   ptx::bulk_copy_cluster(ptx::map_shared_rank(shared + 32, other), shared + 16, 16,
                                          ptx::map_shared_rank(&barrier, other));
                   store_shared(shared, 16, 2);
                 }
                 ptx::cluster_sync();
               });
}

TEST(ClusterFault, CopyToTwoBlocks) {
  expect_fault(kInvalid, "destination and mbarrier are in different blocks", {2, 32, 2, 64},
               [](std::byte* shared) {
                 auto& barrier = at<ptx::Mbarrier>(shared, 0);
                 if (thread_index() == 0) ptx::mbarrier_init(barrier, 1);
                 if (thread_index() == 0) ptx::fence_mbarrier_init();
                 ptx::cluster_sync();
                 ptx::bulk_copy_cluster(ptx::map_shared_rank(shared + 32, 0), shared + 16, 16,
                                        ptx::map_shared_rank(&barrier, 1));
               });
}

}  // namespace
}  // namespace ws::emulator
