// Correct kernels that look wrong at first sight: none may be called a fault, in any order.
#include <array>

#include "tests/emulator/products.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;
using ptx::Scope;

// ---- Shared memory -----------------------------------------------------------------------------

// Two buffers by turns need one barrier a step: who writes buffer 0 again has passed the barrier
// behind which its readers of two steps ago stand.
TEST(NoFalseAlarm, DoubleBufferWithOneBarrier) {
  struct Storage {
    SharedArray<int, 2 * 64> buffers;
  };
  expect_passes([] {
    test::Buffer<int> out(64);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      int sum = 0;
      for (int step = 0; step < 6; ++step) {
        shared.buffers[step % 2 * 64 + me] = step * me;
        ptx::barrier_sync();
        sum += shared.buffers[step % 2 * 64 + 63 - me];
      }
      thread::store(out.data() + me, sum);
    });
    return equal(out, [](int i) { return 15 * (63 - i); });
  });
}

// Neighbouring halves and bytes of one word belong to different threads, and no barrier is due.
TEST(NoFalseAlarm, NeighboursInOneWord) {
  struct Storage {
    SharedArray<uint16_t, 64> halves;
    SharedArray<uint8_t, 64> bytes;
  };
  expect_passes([] {
    test::Buffer<uint8_t> global(64);
    test::Buffer<int> out(64);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      int sum = 0;
      for (int step = 0; step < 3; ++step) {
        shared.halves[me] = static_cast<uint16_t>(step + me);
        shared.bytes[me] = static_cast<uint8_t>(step + me);
        thread::store(global.data() + me, static_cast<uint8_t>(step + me));
        sum += shared.halves[me] + shared.bytes[me] + thread::load(global.data() + me);
      }
      thread::store(out.data() + me, sum);
    });
    return equal(out, [](int i) { return 9 + 9 * i; });
  });
}

// A warp transposes its tile in place: all rows in registers, syncwarp, all columns.
TEST(NoFalseAlarm, TransposeInPlaceByAWarp) {
  struct Storage {
    SharedArray<int, 2 * 32 * 33> tiles;
  };
  expect_passes([] {
    test::Buffer<int> out(2 * 1024);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int lane = lane_index();
      const int tile = warp_index() * 32 * 33;
      for (int row = 0; row < 32; ++row) shared.tiles[tile + row * 33 + lane] = row * 32 + lane;
      ptx::syncwarp();
      int column[32];
      for (int i = 0; i < 32; ++i) column[i] = shared.tiles[tile + lane * 33 + i];
      ptx::syncwarp();
      for (int i = 0; i < 32; ++i) shared.tiles[tile + i * 33 + lane] = column[i];
      ptx::syncwarp();
      for (int i = 0; i < 32; ++i) {
        thread::store(out.data() + warp_index() * 1024 + i * 32 + lane,
                      int{shared.tiles[tile + i * 33 + lane]});
      }
    });
    return equal(out, [](int i) { return i % 32 * 32 + i / 32 % 32; });
  });
}

// bar.warp.sync may be executed at two places by one warp, unlike what is .aligned.
TEST(NoFalseAlarm, SyncwarpAtTwoPlaces) {
  struct Storage {
    SharedArray<int, 32> x;
  };
  expect_passes([] {
    test::Buffer<int> out(32);
    launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
      const int lane = lane_index();
      if (lane < 16) {
        shared.x[lane] = lane;
        ptx::syncwarp();
      } else {
        shared.x[lane] = 2 * lane;
        ptx::syncwarp();
      }
      thread::store(out.data() + lane, int{shared.x[31 - lane]});
    });
    return equal(out, [](int i) { return 31 - i >= 16 ? 2 * (31 - i) : 31 - i; });
  });
}

// Warps take turns with two named barriers, each at a place of its own in the program.
TEST(NoFalseAlarm, PingPongOfTwoWarps) {
  struct Storage {
    SharedArray<int, 32> x;
  };
  expect_passes([] {
    test::Buffer<int> out(32);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int lane = lane_index();
      if (warp_index() == 0) shared.x[lane] = 0;
      for (int round = 0; round < 4; ++round) {
        if (warp_index() == 0) {
          if (round > 0) ptx::barrier_sync(2, 64);
          shared.x[lane] = shared.x[lane] + 1;
          ptx::barrier_arrive(1, 64);
        } else {
          ptx::barrier_sync(1, 64);
          const int doubled = 2 * shared.x[31 - lane];
          ptx::syncwarp();
          shared.x[lane] = doubled;
          if (round < 3) ptx::barrier_arrive(2, 64);
        }
      }
      if (warp_index() == 1) thread::store(out.data() + lane, int{shared.x[lane]});
    });
    return equal(out, [](int) { return 30; });
  });
}

// A warp that has nothing to do leaves before the barrier: the hardware counts who has exited as
// arrived.
TEST(NoFalseAlarm, ExitBeforeTheBarrier) {
  struct Storage {
    SharedArray<int, 96> x;
  };
  expect_passes([] {
    test::Buffer<int> out(40);
    launch_with<Storage>({.threads = 96}, [&](Storage& shared) {
      const int me = thread_index();
      if (me >= 64) return;  // warp 2
      shared.x[me] = me;
      ptx::barrier_sync();
      if (me < 40) thread::store(out.data() + me, int{shared.x[63 - me]});
    });
    return equal(out, [](int i) { return 63 - i; });
  });
}

// A named barrier serves other warps, and another number of them, once it is complete.
TEST(NoFalseAlarm, BarrierWithAnotherCount) {
  struct Storage {
    SharedArray<int, 128> x;
  };
  expect_passes([] {
    test::Buffer<int> out(128);
    launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
      const int me = thread_index();
      shared.x[me] = me;
      if (me < 64) ptx::barrier_sync(1, 64);
      int sum = me < 64 ? int{shared.x[63 - me]} : 0;
      ptx::barrier_sync();
      shared.x[me] = 2 * me;
      ptx::barrier_sync(1, 128);
      sum += shared.x[127 - me];
      thread::store(out.data() + me, sum);
    });
    return equal(out, [](int i) { return (i < 64 ? 63 - i : 0) + 2 * (127 - i); });
  });
}

// ldmatrix x2 asks 16 lanes for rows; what the others name is not looked at.
TEST(NoFalseAlarm, LdmatrixX2WithIdleLanes) {
  struct Storage {
    SharedArray<uint16_t, 16 * 8, 128> rows;
    SharedArray<uint16_t, 64, 128> never_written;
  };
  expect_passes([] {
    test::Buffer<uint32_t> out(32);
    launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
      const int lane = lane_index();
      for (int i = lane; i < 128; i += 32) shared.rows[i] = static_cast<uint16_t>(i / 8);
      ptx::syncwarp();
      uint32_t r[2];
      ptx::ldmatrix_x2(r, lane < 16 ? shared.rows.pointer(lane * 8)
                                    : shared.never_written.pointer() + (lane - 16) * 4 + 1);
      thread::store(out.data() + lane, (r[0] & 0xFFFF) + (r[1] >> 16));
    });
    return equal(out, [](int i) { return 2 * (i / 4) + 8; });
  });
}

// The last tile of a matrix of 8 rows: ldmatrix x4 brings 16, of which the lower 8 hold nothing,
// and mma.sync multiplies them too; only the upper rows of the result are stored.
TEST(NoFalseAlarm, LdmatrixOfRowsThatNobodyUses) {
  struct Storage {
    SharedArray<half, 16 * 16, 128> a;
  };
  expect_passes([] {
    test::Buffer<float> out(8 * 8);
    launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
      const int lane = lane_index();
      for (int i = lane; i < 8 * 16; i += 32) shared.a[i] = half(a_value(i / 16, i % 16));
      ptx::syncwarp();
      uint32_t a[4];
      ptx::ldmatrix_x4(a, shared.a.pointer(lane % 16 * 16 + lane / 16 * 8));
      uint32_t b[2];
      for (int i = 0; i < 2; ++i) {
        const int k = 2 * (lane % 4) + 8 * i;
        b[i] = half(b_value(k, lane / 4)).bits |
               static_cast<uint32_t>(half(b_value(k + 1, lane / 4)).bits) << 16;
      }
      float d[4] = {};
      ptx::mma_m16n8k16<half>(d, a, b, d);
      for (int i = 0; i < 2; ++i) {
        thread::store(out.data() + lane / 4 * 8 + 2 * (lane % 4) + i, d[i]);
      }
    });
    return equal(out, [](int i) { return product_value(i / 8, i % 8); });
  });
}

// ---- Copies and rings --------------------------------------------------------------------------

// The tail of a pipeline commits empty groups, so that wait_group<1> keeps its meaning.
TEST(NoFalseAlarm, EmptyGroupsOfCpAsync) {
  struct Storage {
    SharedArray<int, 2 * 64, 128> stages;
  };
  expect_passes([] {
    constexpr int kSteps = 5;
    test::Buffer<int> in(filled<int>(64 * kSteps, [](int i) { return i; }));
    test::Buffer<int> out(64);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      int sum = 0;
      for (int step = 0; step <= kSteps; ++step) {
        if (step < kSteps) {
          ptx::cp_async<4>(shared.stages.pointer(step % 2 * 64 + me), in.data() + step * 64 + me);
        }
        ptx::cp_async_commit_group();
        if (step == 0) continue;
        ptx::cp_async_wait_group<1>();  // of this thread's own element: no barrier
        sum += shared.stages[(step - 1) % 2 * 64 + me];
      }
      thread::store(out.data() + me, sum);
    });
    return equal(out, [](int i) { return 64 * 10 + 5 * i; });
  });
}

// A copy of no bytes puts zeros there and reads nothing: not where it points to, past the end.
TEST(NoFalseAlarm, ACpAsyncOfNoBytes) {
  struct Storage {
    SharedArray<int, 4, 16> there;
  };
  expect_passes([] {
    test::Buffer<int> in(filled<int>(4, [](int) { return 7; }));
    test::Buffer<int> out(4);
    launch_with<Storage>({.threads = 1}, [&](Storage& shared) {
      ptx::cp_async<16>(shared.there.pointer(0), in.data() + 1000, 0);
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      for (int i = 0; i < 4; ++i) thread::store(out.data() + i, shared.there[i]);
    });
    return equal(out, [](int) { return 0; });
  });
}

// The bytes may land before the phase expects them, as long as an arrival is due; then one lane of
// each consuming warp waits, and syncwarp passes on what it saw.
TEST(NoFalseAlarm, OneLaneWaitsThenSyncwarp) {
  struct Storage {
    SharedArray<int, 2 * 32, 128> stages;
    tile::Pipeline<2> pipeline;
  };
  expect_passes([] {
    constexpr int kSteps = 5;
    test::Buffer<int> in(filled<int>(32 * kSteps, [](int i) { return i; }));
    test::Buffer<int> out(64);
    launch_with<Storage>({.threads = 96}, [&](Storage& shared) {
      if (thread_index() == 0) {
        shared.pipeline.init(2);
        ptx::fence_mbarrier_init();
      }
      ptx::barrier_sync();
      tile::PipelinePosition<2> at;
      const bool elected = ptx::elect_sync();
      int sum = 0;
      for (int step = 0; step < kSteps; ++step, at.advance()) {
        if (warp_index() == 0) {
          if (elected) ptx::mbarrier_wait_parity(shared.pipeline.empty[at.stage], at.parity ^ 1);
          ptx::syncwarp();
          if (lane_index() == 31) {  // another lane than the one that waited
            ptx::Mbarrier& full = shared.pipeline.full[at.stage];
            ptx::bulk_load(shared.stages.pointer(at.stage * 32), in.data() + step * 32, 128, full);
            ptx::mbarrier_arrive_expect_tx(full, 128);
          }
        } else {
          if (elected) shared.pipeline.wait(at);
          ptx::syncwarp();
          sum += shared.stages[at.stage * 32 + 31 - lane_index()];
          ptx::syncwarp();
          if (elected) shared.pipeline.release(at.stage);
        }
      }
      if (warp_index() > 0) thread::store(out.data() + thread_index() - 32, sum);
    });
    return equal(out, [](int i) { return 32 * 10 + 5 * (31 - i % 32); });
  });
}

// Thread 0 alone waits for a bulk copy; the block's barrier passes it on.
TEST(NoFalseAlarm, OneThreadWaitsThenTheBlocksBarrier) {
  struct Storage {
    SharedArray<int, 64, 128> x;
    ptx::Mbarrier full;
  };
  expect_passes([] {
    test::Buffer<int> in(filled<int>(64, [](int i) { return i; }));
    test::Buffer<int> out(64);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      if (me == 0) {
        ptx::mbarrier_init(shared.full, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(shared.full, 256);
        ptx::bulk_load(shared.x.pointer(), in.data(), 256, shared.full);
        ptx::mbarrier_wait_parity(shared.full, 0);
      }
      ptx::barrier_sync();
      thread::store(out.data() + me, int{shared.x[63 - me]});
    });
    return equal(out, [](int i) { return 63 - i; });
  });
}

// Each warp stages its rows and stores them by a lane of its own: fence, syncwarp, bulk store;
// wait_group.read of that lane and a syncwarp before the next rows.
TEST(NoFalseAlarm, BulkStoreByWarp) {
  struct Storage {
    SharedArray<int, 2 * 32, 128> stages;
  };
  expect_passes([] {
    test::Buffer<int> out(3 * 64);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      for (int tile = 0; tile < 3; ++tile) {
        if (lane_index() == 0) ptx::bulk_wait_group_read<0>();
        ptx::syncwarp();
        shared.stages[me] = tile * 64 + me;
        ptx::fence_proxy_async();
        ptx::syncwarp();
        if (lane_index() == 0) {
          const int row = warp_index() * 32;
          ptx::bulk_store(out.data() + tile * 64 + row, shared.stages.pointer(row), 128);
          ptx::bulk_commit_group();
        }
      }
      if (lane_index() == 0) ptx::bulk_wait_group<0>();
    });
    return equal(out, [](int i) { return i; });
  });
}

// An mbarrier as a barrier of some of a block's threads: they arrive, do something else, and wait.
TEST(NoFalseAlarm, MbarrierAsSplitBarrier) {
  struct Storage {
    SharedArray<int, 64> x;
    ptx::Mbarrier barrier;
  };
  expect_passes([] {
    test::Buffer<int> out(64);
    launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      if (me == 0) ptx::mbarrier_init(shared.barrier, 64);
      ptx::barrier_sync();
      int sum = 0;
      for (uint32_t phase = 0; phase < 6; ++phase) {
        if (phase % 2 == 0) shared.x[me] = me + static_cast<int>(phase);
        ptx::mbarrier_arrive(shared.barrier);
        sum += me;
        ptx::mbarrier_wait_parity(shared.barrier, phase & 1);
        if (phase % 2 == 0) sum += shared.x[63 - me];
      }
      thread::store(out.data() + me, sum);
    });
    return equal(out, [](int i) { return 6 * i + 3 * (63 - i) + 6; });
  });
}

// ---- wgmma -------------------------------------------------------------------------------------

// Each warp's product reads its own 16 rows of A alone, so for them a syncwarp is enough; B has
// seen a barrier.
TEST(NoFalseAlarm, OwnRowsOfABehindASyncwarp) {
  struct Storage {
    OperandA p;
    OperandB v;
  };
  expect_passes([] {
    test::Buffer<float> out(64 * 16);
    launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
      fill_b(shared.v, 0, thread_index(), 128);
      ptx::fence_proxy_async();
      ptx::barrier_sync();
      float d[8] = {};
      for (int step = 0; step < 3; ++step) {
        fill_a(shared.p, 0, lane_index(), 32, 16 * warp_index(), 16);
        ptx::fence_proxy_async();
        ptx::syncwarp();
        ptx::wgmma_fence(d);
        ptx::wgmma_m64k16<16, half>(d, shared.p.descriptor(), shared.v.descriptor(), step > 0);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>(d);
      }
      store_d(out.data(), d);
    });
    return is_product(out, 1, 3);
  });
}

// Warps wait as they need: two for all groups, two for the older one first; one touches what has
// ended while the younger group goes on.
TEST(NoFalseAlarm, WaitGroupThatDiffersByWarp) {
  expect_passes([] {
    test::Buffer<float> out(2 * 64 * 16);
    launch_with<Operands>({.threads = 128}, [&](Operands& shared) {
      shared.fill();
      const uint64_t a = shared.a.descriptor();
      const uint64_t b = shared.b.descriptor();
      float d0[8] = {};
      float d1[8] = {};
      ptx::wgmma_fence(d0, d1);
      ptx::wgmma_m64k16<16, half>(d0, a, b, false);
      ptx::wgmma_commit_group();
      ptx::wgmma_m64k16<16, half>(d1, a, b, false);
      ptx::wgmma_commit_group();
      if (warp_index() < 2) {
        ptx::wgmma_wait_group<0>(d0, d1);
        for (float& x : d0) x *= 2;
      } else {
        ptx::wgmma_wait_group<1>(d0);
        for (float& x : d0) x *= 2;
        ptx::wgmma_wait_group<0>(d1);
      }
      for (float& x : d1) x *= 2;
      store_d(out.data(), d0);
      store_d(out.data() + 1024, d1);
    });
    return is_product(out, 1, 2);
  });
}

// Two warpgroups share one B, which warps of both bring; each has an A of its own, behind a barrier
// of its own. The one that is ready first begins.
TEST(NoFalseAlarm, TwoWarpgroupsShareB) {
  struct Storage {
    OperandA a[2];
    OperandB b;
  };
  expect_passes([] {
    test::Buffer<float> out(2 * 64 * 16);
    launch_with<Storage>({.threads = 256}, [&](Storage& shared) {
      const int group = thread_index() / 128;
      fill_b(shared.b, 0, thread_index(), 256);
      ptx::fence_proxy_async();
      ptx::barrier_sync();
      fill_a(shared.a[group], 0, thread_index() % 128, 128);
      ptx::fence_proxy_async();
      ptx::barrier_sync(1 + group, 128);
      float d[8] = {};
      ptx::wgmma_fence(d);
      ptx::wgmma_m64k16<16, half>(d, shared.a[group].descriptor(), shared.b.descriptor(), false);
      ptx::wgmma_commit_group();
      const half first = shared.b.elements[0];
      ptx::wgmma_wait_group<0>(d);
      store_d(out.data() + group * 1024, d);
      EXPECT_EQ(to_float(first), b_value(0, 0));  // loads beside the product's reads are no race
    });
    return is_product(out);
  });
}

// Products in flight while the next fragment of A is made in other registers, and while
// accumulators that no product uses are touched.
TEST(NoFalseAlarm, OtherRegistersInFlight) {
  struct Storage {
    OperandB b[4];
  };
  expect_passes([] {
    test::Buffer<float> out(64 * 16);
    launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
      for (int step = 0; step < 4; ++step) fill_b(shared.b[step], step, thread_index(), 128);
      ptx::fence_proxy_async();
      ptx::barrier_sync();
      float d[2][8] = {};
      float sum[8] = {};
      uint32_t a[2][4];
      fragment_a(a[0], 0);
      for (int step = 0; step < 4; ++step) {
        const int now = step % 2;
        ptx::wgmma_fence(d[now], a[now]);
        ptx::wgmma_m64k16<16, half>(d[now], a[now], shared.b[step].descriptor(), false);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>(d[1 - now]);
        for (int i = 0; i < 8; ++i) {
          sum[i] += d[1 - now][i];  // the product before, or the zeros of the beginning
          d[1 - now][i] = 0;
        }
        if (step < 3) fragment_a(a[1 - now], step + 1);
      }
      ptx::wgmma_wait_group<0>(d[1]);
      for (int i = 0; i < 8; ++i) sum[i] += d[1][i];
      store_d(out.data(), sum);
    });
    return is_product(out, 4);
  });
}

// Several products to a group on the same accumulators need no fence between them; the zeroing of
// accumulators that the first product does not read need not be there.
TEST(NoFalseAlarm, ChainedProductsWithOneFence) {
  struct Storage {
    OperandA a[2];
    OperandB b[2];
  };
  expect_passes([] {
    test::Buffer<float> out(64 * 16);
    launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
      for (int step = 0; step < 2; ++step) {
        fill_a(shared.a[step], step, thread_index(), 128);
        fill_b(shared.b[step], step, thread_index(), 128);
      }
      ptx::fence_proxy_async();
      ptx::barrier_sync();
      float d[8];
      std::ranges::fill(d, 123.0F);
      ptx::wgmma_fence(d);
      for (int step = 0; step < 2; ++step) {
        ptx::wgmma_m64k16<16, half>(d, shared.a[step].descriptor(), shared.b[step].descriptor(),
                                    step > 0);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>(d);
      store_d(out.data(), d);
    });
    return is_product(out, 2);
  });
}

// A warp-specialised product whose four warps walk the ring each at its own pace: every warp waits
// for the stage, multiplies, waits for its product and lets go, with no barrier among them.
TEST(NoFalseAlarm, WarpsOfAWarpgroupWithoutABarrier) {
  constexpr int kSteps = 6;
  constexpr uint32_t kBytes = (OperandA::kElements + OperandB::kElements) * 2;
  struct Storage {
    OperandA a[2];
    OperandB b[2];
    tile::Pipeline<2> pipeline;
  };
  expect_passes([] {
    test::Buffer<half> a(image_a(kSteps));
    test::Buffer<half> b(image_b(kSteps));
    test::Buffer<float> out(64 * 16);
    launch_with<Storage>({.threads = 160}, [&](Storage& shared) {
      if (thread_index() == 0) {
        shared.pipeline.init(4);
        ptx::fence_mbarrier_init();
      }
      ptx::barrier_sync();
      tile::PipelinePosition<2> at;
      if (warp_index() == 4) {
        const bool elected = ptx::elect_sync();
        for (int step = 0; elected && step < kSteps; ++step, at.advance()) {
          ptx::Mbarrier& full = shared.pipeline.acquire(at, kBytes);
          ptx::bulk_load(shared.a[at.stage].elements.pointer(), a.data() + step * 1024, 2048, full);
          ptx::bulk_load(shared.b[at.stage].elements.pointer(), b.data() + step * 256, 512, full);
        }
        return;
      }
      float d[8] = {};
      for (int step = 0; step < kSteps; ++step, at.advance()) {
        shared.pipeline.wait(at);
        ptx::wgmma_fence(d);
        ptx::wgmma_m64k16<16, half>(d, shared.a[at.stage].descriptor(),
                                    shared.b[at.stage].descriptor(), step > 0);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>(d);
        if (lane_index() == 0) shared.pipeline.release(at.stage);
      }
      store_d(out.data(), d);
    });
    return is_product(out, kSteps);
  });
}

// ---- Clusters ----------------------------------------------------------------------------------

// A relaxed arrival suffices behind fence.mbarrier_init, which releases the initialisation; and at
// the end, where it only keeps the block's memory there.
TEST(NoFalseAlarm, RelaxedClusterArrivals) {
  struct Storage {
    SharedArray<int, 32> inbox;
    ptx::Mbarrier full;
  };
  expect_passes([] {
    test::Buffer<int> out(64);
    launch_with<Storage>({.blocks = 2, .threads = 32, .cluster = 2}, [&](Storage& shared) {
      const int lane = lane_index();
      const int other = 1 - cluster_rank();
      if (lane == 0) {
        ptx::mbarrier_init(shared.full, 32);
        ptx::fence_mbarrier_init();
      }
      ptx::syncwarp();
      ptx::cluster_arrive_relaxed();
      const int value = lane * lane;  // something to do meanwhile
      ptx::cluster_wait();
      ptx::st_shared_cluster(ptx::map_shared_rank(shared.inbox.pointer(31 - lane), other), value);
      ptx::mbarrier_arrive_cluster(shared.full, other);
      ptx::mbarrier_wait_parity<Scope::kCluster>(shared.full, 0);
      const int received = shared.inbox[lane];
      ptx::cluster_arrive_relaxed();
      thread::store(out.data() + block_index() * 32 + lane, received);
      ptx::cluster_wait();
    });
    return equal(out, [](int i) { return (31 - i % 32) * (31 - i % 32); });
  });
}

// st.async both ways, with two inboxes by turns and no cluster barrier between the rounds: whoever
// has read an inbox tells the sender so.
TEST(NoFalseAlarm, StAsyncWithTwoInboxes) {
  struct Storage {
    SharedArray<int, 2 * 32, 128> inbox;
    ptx::Mbarrier full[2];
    ptx::Mbarrier empty[2];  // the other block's inboxes
  };
  expect_passes([] {
    test::Buffer<int> out(64);
    launch_with<Storage>({.blocks = 2, .threads = 32, .cluster = 2}, [&](Storage& shared) {
      const int lane = lane_index();
      const int other = 1 - cluster_rank();
      if (lane == 0) {
        for (int side = 0; side < 2; ++side) {
          ptx::mbarrier_init(shared.full[side], 1);
          ptx::mbarrier_init(shared.empty[side], 32);
        }
        ptx::fence_mbarrier_init();
      }
      ptx::cluster_sync();
      int sum = 0;
      for (int round = 0; round < 6; ++round) {
        const int side = round % 2;
        const auto parity = static_cast<uint32_t>(round / 2 & 1);
        if (lane == 0) ptx::mbarrier_arrive_expect_tx(shared.full[side], 128);
        ptx::mbarrier_wait_parity<Scope::kCluster>(shared.empty[side], parity ^ 1);
        ptx::st_async(ptx::map_shared_rank(shared.inbox.pointer(side * 32 + lane), other),
                      round + lane, ptx::map_shared_rank(&shared.full[side], other));
        ptx::mbarrier_wait_parity<Scope::kCluster>(shared.full[side], parity);
        sum += shared.inbox[side * 32 + lane];
        ptx::mbarrier_arrive_cluster(shared.empty[side], other);
      }
      ptx::cluster_sync();
      thread::store(out.data() + block_index() * 32 + lane, sum);
    });
    return equal(out, [](int i) { return 15 + 6 * (i % 32); });
  });
}

// A reduction over the cluster whose scratch has two halves by turns: one cluster barrier a round.
TEST(NoFalseAlarm, ClusterReduceWithOneBarrierARound) {
  struct Storage {
    SharedArray<int, 2> partial;
  };
  expect_passes([] {
    test::Buffer<int> out(4);
    launch_with<Storage>({.blocks = 4, .threads = 64, .cluster = 4}, [&](Storage& shared) {
      int total = 0;
      for (int round = 0; round < 4; ++round) {
        if (thread_index() == 0) shared.partial[round % 2] = cluster_rank() + round;
        ptx::cluster_sync();
        for (int rank = 0; rank < 4; ++rank) {
          total += ptx::ld_shared_cluster<int>(
              ptx::map_shared_rank(shared.partial.pointer(round % 2), rank));
        }
      }
      ptx::cluster_sync();
      if (thread_index() == 0) thread::store(out.data() + block_index(), total);
    });
    return equal(out, [](int) { return 4 * 6 + 4 * 6; });
  });
}

// A ring that two blocks fill for each other: each loads one half of a stage to both by multicast.
// Arrivals at the other block's "empty" are of the block's scope: they pass no memory on.
TEST(NoFalseAlarm, RingWithMulticast) {
  constexpr int kSteps = 7;
  struct Storage {
    SharedArray<float, 2 * 64, 128> stages;
    tile::Pipeline<2> pipeline;
  };
  expect_passes([] {
    test::Buffer<float> in(filled<float>(kSteps * 64, [](int i) { return i; }));
    test::Buffer<float> out(2 * 32);
    const ptx::TensorMap map =
        ptx::make_tensor_map_2d(in.data(), kSteps, 64, 64, 1, 32, ptx::Swizzle::kNone);
    launch_with<Storage>({.blocks = 2, .threads = 64, .cluster = 2}, [&](Storage& shared) {
      const int rank = cluster_rank();
      if (thread_index() == 0) {
        shared.pipeline.init(2);  // the consuming warps of both blocks
        ptx::fence_mbarrier_init();
      }
      ptx::cluster_sync();
      tile::PipelinePosition<2> at;
      if (warp_index() == 0 && lane_index() == 0) {
        for (int step = 0; step < kSteps; ++step, at.advance()) {
          ptx::Mbarrier& full = shared.pipeline.acquire(at, 256);
          ptx::tensor_load_2d_multicast(shared.stages.pointer(at.stage * 64 + rank * 32), map, full,
                                        rank * 32, step, 3);
        }
      } else if (warp_index() == 1) {
        float sum = 0;
        for (int step = 0; step < kSteps; ++step, at.advance()) {
          shared.pipeline.wait(at);
          sum += shared.stages[at.stage * 64 + lane_index()];
          sum += shared.stages[at.stage * 64 + 63 - lane_index()];
          ptx::syncwarp();
          if (lane_index() < 2) shared.pipeline.release(at.stage, lane_index());
        }
        thread::store(out.data() + block_index() * 32 + lane_index(), sum);
      }
      ptx::cluster_sync();
    });
    return equal(out, [](int) { return 2 * 64 * 21 + 7 * 63; });
  });
}

// ---- Between blocks ----------------------------------------------------------------------------

// The last block to finish sums up: the fence and the ticket of one thread, between barriers, speak
// for the whole block.
TEST(NoFalseAlarm, LastBlockDone) {
  struct Storage {
    SharedArray<int, 1> is_last;
  };
  expect_passes([] {
    constexpr int kBlocks = 6;
    test::Buffer<float> partial(kBlocks * 64);
    test::Buffer<float> out(1);
    test::Buffer<uint32_t> tickets(1);
    launch_with<Storage>({.blocks = kBlocks, .threads = 64}, [&](Storage& shared) {
      const int me = thread_index();
      thread::store(partial.data() + block_index() * 64 + me, 1.0F);
      ptx::fence_acq_rel<Scope::kGpu>();  // the other idiom: every thread fences for itself
      ptx::barrier_sync();
      if (me == 0) {
        shared.is_last[0] = ptx::atom_global_add(tickets.data(), 1u) == kBlocks - 1 ? 1 : 0;
      }
      ptx::barrier_sync();
      if (shared.is_last[0] == 0) return;
      ptx::fence_acq_rel<Scope::kGpu>();
      if (me != 0) return;
      float sum = 0;
      for (int i = 0; i < kBlocks * 64; ++i) sum += thread::load(partial.data() + i);
      thread::store(out.data(), sum);
      ptx::atom_global_exch(tickets.data(), 0u);  // ready for the next launch
    });
    return equal(out, [](int) { return 384; });
  });
}

// A lock that serves in the order of tickets.
TEST(NoFalseAlarm, TicketLock) {
  expect_passes([] {
    test::Buffer<uint32_t> next(1);
    test::Buffer<uint32_t> serving(1);
    test::Buffer<float> row(32);
    launch({.blocks = 4, .threads = 64, .cooperative = true}, [&](std::byte*) {
      const int lane = lane_index();
      if (lane == 0) {
        const uint32_t mine = ptx::atom_global_add(next.data(), 1u);
        while (ptx::ld_relaxed<Scope::kGpu>(serving.data()) != mine) {
        }
        ptx::fence_acq_rel<Scope::kGpu>();
      }
      ptx::syncwarp();
      thread::store(row.data() + lane, thread::load(row.data() + lane) + 1);
      ptx::syncwarp();
      if (lane == 0) {
        ptx::fence_acq_rel<Scope::kGpu>();
        ptx::red_global_add(serving.data(), 1u);
      }
    });
    return equal(row, [](int) { return 8; });
  });
}

// Look-back by blockIdx: every block waits for the one before it, and the hardware starts them in
// this order. All threads of a block read what thread 0 has waited for.
TEST(NoFalseAlarm, LookBackByBlockIndex) {
  expect_passes([] {
    constexpr int kBlocks = 6;
    test::Buffer<int> prefix(kBlocks * 32);
    test::Buffer<uint32_t> flags(kBlocks);
    launch({.blocks = kBlocks, .threads = 32}, [&](std::byte*) {
      const int64_t block = block_index();
      const int lane = lane_index();
      int sum = lane;
      if (block > 0) {
        if (lane == 0) {
          while (ptx::ld_acquire<Scope::kGpu>(flags.data() + block - 1) == 0) {
          }
        }
        ptx::syncwarp();
        sum += thread::load(prefix.data() + (block - 1) * 32 + 31 - lane);
      }
      thread::store(prefix.data() + block * 32 + lane, sum);
      ptx::syncwarp();
      if (lane == 0) ptx::st_release<Scope::kGpu>(flags.data() + block, 1u);
    });
    return equal(prefix, [](int i) {
      const int block = i / 32;
      const int lane = i % 32;
      return (block + 2) / 2 * lane + (block + 1) / 2 * (31 - lane);
    });
  });
}

// The same with tickets, and with the state and the value of a block in one word of 8 bytes, so
// that a relaxed load and store carry both and no fence is due.
TEST(NoFalseAlarm, LookBackWithOneWord) {
  expect_passes([] {
    constexpr uint32_t kBlocks = 6;
    constexpr uint64_t kReady = uint64_t{1} << 32;
    test::Buffer<uint64_t> state(kBlocks);
    test::Buffer<uint32_t> tickets(1);
    launch({.blocks = kBlocks, .threads = 32}, [&](std::byte*) {
      if (thread_index() != 0) return;
      const uint32_t mine = ptx::atom_global_add(tickets.data(), 1u);
      uint64_t sum = mine + 1;
      if (mine > 0) {
        uint64_t seen = 0;
        while (seen == 0) seen = ptx::ld_relaxed<Scope::kGpu>(state.data() + mine - 1);
        sum += seen - kReady;
      }
      ptx::st_relaxed<Scope::kGpu>(state.data() + mine, kReady + sum);
    });
    return equal(state,
                 [](int i) { return kReady + static_cast<uint64_t>((i + 1) * (i + 2) / 2); });
  });
}

// A grid barrier of one's own: barrier, fence, arrival, spin, fence, barrier.
TEST(NoFalseAlarm, OwnGridBarrier) {
  expect_passes([] {
    constexpr int kBlocks = 4;
    test::Buffer<uint32_t> arrived(1);
    test::Buffer<int> x(2 * kBlocks * 32);
    launch({.blocks = kBlocks, .threads = 32, .cooperative = true}, [&](std::byte*) {
      const int me = static_cast<int>(block_index()) * 32 + thread_index();
      thread::store(x.data() + me, me);
      for (uint32_t round = 1; round <= 3; ++round) {
        ptx::barrier_sync();
        if (thread_index() == 0) {
          ptx::fence_acq_rel<Scope::kGpu>();
          ptx::atom_global_add(arrived.data(), 1u);
          while (ptx::ld_relaxed<Scope::kGpu>(arrived.data()) < round * kBlocks) {
          }
          ptx::fence_acq_rel<Scope::kGpu>();
        }
        ptx::barrier_sync();
        // From one half of x to the other, read in reverse.
        const int from = static_cast<int>(round + 1) % 2 * kBlocks * 32;
        const int to = static_cast<int>(round % 2) * kBlocks * 32;
        thread::store(x.data() + to + me, thread::load(x.data() + from + kBlocks * 32 - 1 - me));
      }
    });
    return equal(
        x, [](int i) { return i < kBlocks * 32 ? i : kBlocks * 32 - 1 - i % (32 * kBlocks); });
  });
}

// What a block has acquired it may publish: block 0 writes, block 1 passes the flag on, block 2
// reads what block 0 wrote.
TEST(NoFalseAlarm, OrderThroughAThirdBlock) {
  expect_passes([] {
    test::Buffer<int> x(1);
    test::Buffer<int> out(1);
    test::Buffer<uint32_t> flags(2);
    launch({.blocks = 3, .threads = 32, .cooperative = true}, [&](std::byte*) {
      if (thread_index() != 0) return;
      const auto wait = [&](int flag) {
        while (ptx::ld_acquire<Scope::kGpu>(flags.data() + flag) == 0) {
        }
      };
      switch (block_index()) {
        case 0:
          thread::store(x.data(), 5);
          ptx::st_release<Scope::kGpu>(flags.data(), 1u);
          break;
        case 1:
          wait(0);
          ptx::st_release<Scope::kGpu>(flags.data() + 1, 1u);
          break;
        default: wait(1); thread::store(out.data(), thread::load(x.data()));
      }
    });
    return equal(out, [](int) { return 5; });
  });
}

// Split-K: atomics of all blocks on C that the host has zeroed; a relaxed look at the progress
// meanwhile; C is read behind a grid barrier.
TEST(NoFalseAlarm, SplitK) {
  expect_passes([] {
    test::Buffer<float> c(64);
    test::Buffer<float> out(64);
    test::Buffer<uint32_t> counter(1);
    launch({.blocks = 4, .threads = 64, .cooperative = true}, [&](std::byte*) {
      const int me = thread_index();
      for (int step = 0; step < 3; ++step) {
        ptx::red_global_add(c.data() + (me + step) % 64, 1.0F);
        EXPECT_LE(ptx::ld_relaxed<Scope::kGpu>(c.data() + me), 12.0F);
      }
      ptx::grid_sync(counter.data());
      if (block_index() == 2) thread::store(out.data() + me, thread::load(c.data() + 63 - me));
    });
    return equal(out, [](int) { return 12; });
  });
}

// Threads of a block count by relaxed atomics; the block's barrier is all that an ordinary load of
// the count behind it takes. Plain words lie beside it.
TEST(NoFalseAlarm, AtomicsThenABarrierThenALoad) {
  expect_passes([] {
    test::Buffer<uint32_t> words(2 * 4);  // of each block a count, and three plain words
    launch({.blocks = 2, .threads = 64}, [&](std::byte*) {
      const int me = thread_index();
      uint32_t* mine = words.data() + block_index() * 4;
      ptx::red_global_add(mine, 1u);
      if (me == 63) thread::store(mine + 1, 7u);
      ptx::barrier_sync();
      if (me == 5) thread::store(mine + 2, thread::load(mine) + thread::load(mine + 1));
    });
    return equal(words, [](int i) { return std::array{64, 7, 71, 0}[static_cast<size_t>(i % 4)]; });
  });
}

// Halves of one buffer: the first is read by ld.global.nc and by bulk copies, the second is written
// meanwhile, up to the very next byte.
TEST(NoFalseAlarm, ReadAndWrittenPartsSideBySide) {
  struct Storage {
    SharedArray<int, 32, 128> tile;
    ptx::Mbarrier full;
  };
  expect_passes([] {
    test::Buffer<int> x(filled<int>(64, [](int i) { return i; }));
    launch_with<Storage>({.blocks = 2, .threads = 32}, [&](Storage& shared) {
      const int lane = lane_index();
      const int column = static_cast<int>(block_index()) * 16 + lane / 2;
      if (lane == 0) {
        ptx::mbarrier_init(shared.full, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(shared.full, 128);
        ptx::bulk_load(shared.tile.pointer(), x.data(), 128, shared.full);
      }
      ptx::syncwarp();
      ptx::mbarrier_wait_parity(shared.full, 0);
      if (lane % 2 == 0) {
        const int sum = shared.tile[column] + thread::load<Cache::kReadOnly>(x.data() + column);
        thread::store(x.data() + 32 + column, sum);
      }
    });
    return equal(x, [](int i) { return i < 32 ? i : 2 * (i - 32); });
  });
}

// An earlier launch wrote what this one reads by ld.global.nc and by bulk copies: its end is all
// the order that they need.
TEST(NoFalseAlarm, WrittenByTheLaunchBefore) {
  struct Storage {
    SharedArray<int, 32, 128> tile;
    ptx::Mbarrier full;
  };
  expect_passes([] {
    test::Buffer<int> x(32);
    test::Buffer<int> out(32);
    launch({.threads = 32},
           [&](std::byte*) { thread::store(x.data() + thread_index(), thread_index()); });
    launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
      const int lane = lane_index();
      if (lane == 0) {
        ptx::mbarrier_init(shared.full, 1);
        ptx::fence_mbarrier_init();
        ptx::mbarrier_arrive_expect_tx(shared.full, 128);
        ptx::bulk_load(shared.tile.pointer(), x.data(), 128, shared.full);
      }
      ptx::syncwarp();
      ptx::mbarrier_wait_parity(shared.full, 0);
      const int sum = shared.tile[lane] + thread::load<Cache::kReadOnly>(x.data() + lane);
      thread::store(out.data() + lane, sum);
    });
    return equal(out, [](int i) { return 2 * i; });
  });
}

// A kernel in place: every thread reads and writes its own elements, by vectors and one by one.
TEST(NoFalseAlarm, InPlaceByElement) {
  expect_passes([] {
    test::Buffer<float> x(filled<float>(130, [](int i) { return i; }));
    launch({.blocks = 2, .threads = 32}, [&](std::byte*) {
      const int i = (static_cast<int>(block_index()) * 32 + thread_index()) * 4;
      if (i + 4 <= 128) {
        Vec<float, 4> four = thread::load<4>(x.data() + i);
        for (int j = 0; j < 4; ++j) four[j] += 1;
        thread::store(x.data() + i, four);
      }
      if (i < 8) {  // the tail, by threads 0 and 1
        thread::store(x.data() + 128 + i / 4, thread::load(x.data() + 128 + i / 4) + 1);
      }
    });
    return equal(x, [](int i) { return i + 1; });
  });
}

}  // namespace
}  // namespace ws::emulator
