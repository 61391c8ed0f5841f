// Global memory: accesses outside of their buffer, races within and between blocks, flags without
// fences, ld.global.nc of what is written, and the proxy fence of bulk loads. Each kernel with its
// planted bugs, and its correct form.
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/ptx/grid.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/runtime.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;
using ptx::Scope;

// ---- Bounds ------------------------------------------------------------------------------------

enum class EdgeBug { kNone, kVector, kOneMore, kHalo };

// A sum of 30 elements and a copy of them. Planted: whole vectors up to the end, which 4 does not
// divide; one element more, which is zero and harms no sum; the element left of the first.
Result sum_of_row(EdgeBug bug) {
  constexpr int kSize = 30;
  test::Buffer<float> in(filled<float>(kSize, [](int i) { return i; }));
  test::Buffer<float> out(kSize);
  launch({.threads = 32}, [&](std::byte*) {
    const int me = thread_index();
    if (bug == EdgeBug::kVector) {
      if (me * 4 >= kSize) return;
      thread::store(out.data() + me * 4, thread::load<4>(in.data() + me * 4));
      return;
    }
    if (me >= (bug == EdgeBug::kOneMore ? kSize + 1 : kSize)) return;
    const float left = me > 0 || bug == EdgeBug::kHalo ? thread::load(in.data() + (me - 1)) : -1.0F;
    thread::store(out.data() + me, left + 1);
  });
  return equal(out, [](int i) { return i; });
}
TEST(Bounds, VectorOverTheEnd) {
  expect_planted({Fault::kOutOfRange}, sum_of_row, EdgeBug::kVector);
}
TEST(Bounds, OneElementTooMany) {
  expect_planted({Fault::kOutOfRange}, sum_of_row, EdgeBug::kOneMore);
}
TEST(Bounds, LeftOfTheFirst) { expect_planted({Fault::kOutOfRange}, sum_of_row, EdgeBug::kHalo); }

enum class CopyEdge { kNone, kCpAsync, kBulkLoad, kBulkStore };

// 40 elements by copies of 16 bytes, then by bulk copies. Planted: each of them goes on to the end
// of the tile of 64.
Result copies_of_tail(CopyEdge bug) {
  constexpr int kSize = 40;
  struct Storage {
    SharedArray<int, 64, 128> tile;
    SharedArray<int, 64, 128> bulk;
    ptx::Mbarrier full;
  };
  test::Buffer<int> in(filled<int>(kSize, [](int i) { return i; }));
  test::Buffer<int> out(kSize);
  test::Buffer<int> stored(kSize);
  launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
    const int me = thread_index();
    if (me < 16) {
      const bool inside = me * 4 < kSize || bug == CopyEdge::kCpAsync;
      ptx::cp_async<16>(shared.tile.pointer(me * 4), in.data() + me * 4, inside ? 16 : 0);
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    ptx::fence_proxy_async();
    if (me == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
      const uint32_t bytes = bug == CopyEdge::kBulkLoad ? 256 : kSize * 4;
      ptx::mbarrier_arrive_expect_tx(shared.full, bytes);
      ptx::bulk_load(shared.bulk.pointer(), in.data(), bytes, shared.full);
      ptx::mbarrier_wait_parity(shared.full, 0);
    }
    ptx::barrier_sync();
    for (int i = me; i < kSize; i += 32) {
      thread::store(out.data() + i, shared.tile[i] + shared.bulk[i]);
    }
    if (me == 0) {
      ptx::bulk_store(stored.data(), shared.tile.pointer(),
                      bug == CopyEdge::kBulkStore ? 256 : kSize * 4);
      ptx::bulk_commit_group();
      ptx::bulk_wait_group<0>();
    }
  });
  if (const Result same = equal(stored, [](int i) { return i; }); !same) return same;
  return equal(out, [](int i) { return 2 * i; });
}
TEST(Bounds, CpAsyncOverTheEnd) {
  expect_planted({Fault::kOutOfRange}, copies_of_tail, CopyEdge::kCpAsync);
}
TEST(Bounds, BulkLoadOverTheEnd) {
  expect_planted({Fault::kOutOfRange}, copies_of_tail, CopyEdge::kBulkLoad);
}
TEST(Bounds, BulkStoreOverTheEnd) {
  expect_planted({Fault::kOutOfRange}, copies_of_tail, CopyEdge::kBulkStore);
}

// A tensor load of the last rows; what is outside of the tensor is zero. Planted: the map says the
// rows of the padded problem, and the buffer has those of the problem.
Result tensor_of_padded_rows(bool broken) {
  constexpr int kRows = 6;
  struct Storage {
    SharedArray<float, 8 * 8, 128> box;
    ptx::Mbarrier full;
  };
  test::Buffer<float> in(filled<float>(kRows * 8, [](int i) { return i; }));
  test::Buffer<float> out(64);
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(in.data(), broken ? 8 : kRows, 8, 8, 8, 8, ptx::Swizzle::kNone);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(shared.full, 256);
      ptx::tensor_load_2d(shared.box.pointer(), map, shared.full, 0, 0);
    }
    ptx::barrier_sync();
    ptx::mbarrier_wait_parity(shared.full, 0);
    thread::store(out.data() + thread_index(), float{shared.box[thread_index()]});
  });
  return equal(out, [](int i) { return i < kRows * 8 ? i : 0; });
}
TEST(Bounds, TensorMapOfMoreRows) { expect_planted({Fault::kOutOfRange}, tensor_of_padded_rows); }

// The last rows, by a map that begins with them. Planted: one that begins four rows before the
// tensor, and a box from its fifth row on: within the tensor, but an H200 wants the base to be
// memory too.
Result tensor_from_a_base_before_it(bool broken) {
  struct Storage {
    SharedArray<float, 4 * 8, 128> box;
    ptx::Mbarrier full;
  };
  test::Buffer<float> in(filled<float>(32, [](int i) { return i; }));
  test::Buffer<float> out(32);
  const ptx::TensorMap map = ptx::make_tensor_map_2d(in.data() - (broken ? 32 : 0), broken ? 8 : 4,
                                                     8, 8, 4, 8, ptx::Swizzle::kNone);
  launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(shared.full, 128);
      ptx::tensor_load_2d(shared.box.pointer(), map, shared.full, 0, broken ? 4 : 0);
    }
    ptx::barrier_sync();
    ptx::mbarrier_wait_parity(shared.full, 0);
    thread::store(out.data() + thread_index(), float{shared.box[thread_index()]});
  });
  return equal(out, [](int i) { return i; });
}
TEST(Bounds, TensorMapWithABaseBefore) {
  expect_planted({Fault::kOutOfRange}, tensor_from_a_base_before_it);
}

// A histogram by atomics. Planted: values beyond the last bin are counted behind it.
Result clipped_histogram(bool broken) {
  test::Buffer<uint32_t> bins(10);
  launch({.blocks = 2, .threads = 64}, [&](std::byte*) {
    const int value = thread_index() % 11;
    ptx::red_global_add(bins.data() + (broken ? value : std::min(value, 9)), 1u);
  });
  return equal(bins, [](int i) { return i < 9 ? 12 : 20; });
}
TEST(Bounds, AtomicBehindTheLastBin) { expect_planted({Fault::kOutOfRange}, clipped_histogram); }

// Memory of the runtime, as workspaces are. Planted: the partial sums of one block more than it was
// sized for.
Result workspace(bool broken) {
  constexpr int kBlocks = 3;
  auto* const sums = static_cast<float*>(runtime::allocate(kBlocks * sizeof(float)));
  const std::unique_ptr<void, void (*)(void*)> owner(sums, runtime::free);
  launch({.blocks = broken ? kBlocks + 1 : kBlocks, .threads = 32}, [&](std::byte*) {
    if (thread_index() == 0) thread::store(sums + block_index(), 1.0F);
  });
  return sums[kBlocks - 1] == 1 ? testing::AssertionSuccess() : testing::AssertionFailure();
}
TEST(Bounds, WorkspaceOfFewerBlocks) { expect_planted({Fault::kOutOfRange}, workspace); }

// ---- Races within a block ----------------------------------------------------------------------

// A block leaves its row in global memory and reads it in another order. Planted: no barrier.
Result row_through_workspace(bool broken) {
  test::Buffer<float> row(64);
  test::Buffer<float> out(64);
  launch({.threads = 64}, [&](std::byte*) {
    const int me = thread_index();
    thread::store(row.data() + me, static_cast<float>(me));
    if (!broken) ptx::barrier_sync();
    thread::store(out.data() + me, thread::load(row.data() + 63 - me));
  });
  return equal(out, [](int i) { return 63 - i; });
}
TEST(GlobalRace, RowWithoutABarrier) { expect_planted({Fault::kRace}, row_through_workspace); }

// ---- Races between blocks ----------------------------------------------------------------------

// A stencil. Planted: in place, so that neighbouring blocks read what this one writes.
Result stencil(bool broken) {
  test::Buffer<float> x(filled<float>(128, [](int i) { return i; }));
  test::Buffer<float> y(128);
  launch({.blocks = 4, .threads = 32}, [&](std::byte*) {
    const int i = static_cast<int>(block_index()) * 32 + thread_index();
    const float left = i > 0 ? thread::load(x.data() + i - 1) : -1.0F;
    ptx::barrier_sync();  // in place, this holds the block's own threads together and no others
    thread::store((broken ? x : y).data() + i, left + 1);
  });
  return equal(y, [](int i) { return i; });
}
TEST(GlobalRace, StencilInPlace) { expect_planted({Fault::kRace}, stencil); }

// A sum over blocks. Planted: load, add, store, and additions are lost.
Result sum_over_blocks(bool broken) {
  test::Buffer<float> sum(1);
  launch({.blocks = 8, .threads = 32}, [&](std::byte*) {
    if (thread_index() != 0) return;
    if (broken) {
      thread::store(sum.data(), thread::load(sum.data()) + 1);
    } else {
      ptx::red_global_add(sum.data(), 1.0F);
    }
  });
  return equal(sum, [](int) { return 8; });
}
TEST(GlobalRace, LostAdditions) { expect_planted({Fault::kRace}, sum_over_blocks); }

enum class SplitBug { kNone, kZeroedByBlock0, kReadTooEarly };

// Split-K: blocks add their parts to C by atomics, then C is converted. Planted: block 0 zeroes C
// with no grid barrier behind it; or the conversion comes with none before it.
Result split_k(SplitBug bug) {
  test::Buffer<float> c(filled<float>(32, [](int) { return 7; }));
  test::Buffer<float> out(32);
  test::Buffer<uint32_t> counter(1);
  launch({.blocks = 4, .threads = 32, .cooperative = true}, [&](std::byte*) {
    const int me = thread_index();
    if (block_index() == 0) thread::store(c.data() + me, 0.0F);
    if (bug != SplitBug::kZeroedByBlock0) ptx::grid_sync(counter.data());
    ptx::red_global_add(c.data() + me, static_cast<float>(me));
    if (bug != SplitBug::kReadTooEarly) ptx::grid_sync(counter.data());
    if (block_index() == 3) thread::store(out.data() + me, 2 * thread::load(c.data() + me));
  });
  return equal(out, [](int i) { return 8 * i; });
}
TEST(GlobalRace, ZeroedWhileOthersAdd) {
  expect_planted({Fault::kRace}, split_k, SplitBug::kZeroedByBlock0);
}
TEST(GlobalRace, ReadWhileOthersAdd) {
  expect_planted({Fault::kRace}, split_k, SplitBug::kReadTooEarly);
}

enum class LastBlockBug { kNone, kNoFenceBefore, kNoFenceBehind, kNoBarrier, kFenceOfTheBlock };

// The last block to finish sums what all have left. Planted: the ticket, which is relaxed, is drawn
// with no fence before it; with none behind it; with no barrier between the threads that stored and
// the one that draws; with fences that reach the block only.
Result last_block(LastBlockBug bug) {
  using enum LastBlockBug;
  constexpr int kBlocks = 4;
  struct Storage {
    SharedArray<int, 1> is_last;
  };
  test::Buffer<float> partial(kBlocks * 64);
  test::Buffer<float> out(64);
  test::Buffer<uint32_t> tickets(1);
  launch_with<Storage>({.blocks = kBlocks, .threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    const auto block = static_cast<int>(block_index());
    thread::store(partial.data() + block * 64 + me, static_cast<float>(block + me));
    if (bug != kNoBarrier) ptx::barrier_sync();
    const auto fence = [&] {
      if (bug == kFenceOfTheBlock) {
        ptx::fence_acq_rel<Scope::kCta>();
      } else {
        ptx::fence_acq_rel<Scope::kGpu>();
      }
    };
    if (me == 0) {
      if (bug != kNoFenceBefore) fence();
      shared.is_last[0] = ptx::atom_global_add(tickets.data(), 1u) == kBlocks - 1 ? 1 : 0;
      if (bug != kNoFenceBehind) fence();
    }
    ptx::barrier_sync();
    if (shared.is_last[0] == 0) return;
    float sum = 0;
    for (int from = 0; from < kBlocks; ++from) {
      sum += thread::load(partial.data() + from * 64 + 63 - me);
    }
    thread::store(out.data() + me, sum);
  });
  return equal(out, [](int i) { return 6 + 4 * (63 - i); });
}
TEST(GlobalRace, TicketWithoutAFenceBefore) {
  expect_planted({Fault::kRace}, last_block, LastBlockBug::kNoFenceBefore);
}
TEST(GlobalRace, TicketWithoutAFenceBehind) {
  expect_planted({Fault::kRace}, last_block, LastBlockBug::kNoFenceBehind);
}
TEST(GlobalRace, TicketWithoutABarrier) {
  expect_planted({Fault::kRace}, last_block, LastBlockBug::kNoBarrier);
}
TEST(GlobalRace, TicketWithFencesOfTheBlock) {
  expect_planted({Fault::kRace}, last_block, LastBlockBug::kFenceOfTheBlock);
}

enum class FlagBug {
  kNone,
  kRelaxedStore,
  kRelaxedLoad,
  kScopeOfTheBlock,
  kPlainStore,
  kFlagFirst,
};

// Look-back: each block adds its part to the sum that the block before it has published. Planted:
// a flag that passes nothing on, on one side or the other, or in its own block only; a flag stored
// as anything is; a flag raised before the value is there.
Result look_back(FlagBug bug) {
  using enum FlagBug;
  constexpr int kBlocks = 5;
  test::Buffer<int> prefix(kBlocks);
  test::Buffer<uint32_t> flags(kBlocks);
  launch({.blocks = kBlocks, .threads = 32}, [&](std::byte*) {
    if (thread_index() != 0) return;
    const int64_t block = block_index();
    int sum = static_cast<int>(block) + 1;
    if (block > 0) {
      const uint32_t* flag = flags.data() + block - 1;
      if (bug == kRelaxedLoad) {
        while (ptx::ld_relaxed<Scope::kGpu>(flag) == 0) {
        }
      } else {
        while (ptx::ld_acquire<Scope::kGpu>(flag) == 0) {
        }
      }
      sum += thread::load(prefix.data() + block - 1);
    }
    if (bug != kFlagFirst) thread::store(prefix.data() + block, sum);
    switch (bug) {
      case kRelaxedStore: ptx::st_relaxed<Scope::kGpu>(flags.data() + block, 1u); break;
      case kScopeOfTheBlock: ptx::st_release<Scope::kCta>(flags.data() + block, 1u); break;
      case kPlainStore:
        ptx::fence_acq_rel<Scope::kGpu>();
        thread::store(flags.data() + block, 1u);
        break;
      default: ptx::st_release<Scope::kGpu>(flags.data() + block, 1u);
    }
    if (bug == kFlagFirst) thread::store(prefix.data() + block, sum);
  });
  return equal(prefix, [](int i) { return (i + 1) * (i + 2) / 2; });
}
TEST(GlobalRace, FlagStoredRelaxed) {
  expect_planted({Fault::kRace}, look_back, FlagBug::kRelaxedStore);
}
TEST(GlobalRace, FlagLoadedRelaxed) {
  expect_planted({Fault::kRace}, look_back, FlagBug::kRelaxedLoad);
}
TEST(GlobalRace, FlagOfTheBlocksScope) {
  expect_planted({Fault::kRace}, look_back, FlagBug::kScopeOfTheBlock);
}
TEST(GlobalRace, FlagStoredPlainly) {
  expect_planted({Fault::kRace}, look_back, FlagBug::kPlainStore);
}
TEST(GlobalRace, FlagBeforeTheValue) {
  expect_planted({Fault::kRace}, look_back, FlagBug::kFlagFirst);
}

enum class LockBug { kNone, kNoFenceInside, kNoFenceBeforeUnlock };

// Blocks add to a row under a lock. Planted: the atomics of the lock are relaxed, and the fence
// behind the one that takes it, or before the one that gives it, is missing.
Result locked(LockBug bug) {
  test::Buffer<uint32_t> lock(1);
  test::Buffer<float> row(32);
  launch({.blocks = 4, .threads = 32}, [&](std::byte*) {
    const int lane = lane_index();
    if (lane == 0) {
      while (ptx::atom_global_cas(lock.data(), 0u, 1u) != 0) {
      }
      if (bug != LockBug::kNoFenceInside) ptx::fence_acq_rel<Scope::kGpu>();
    }
    ptx::syncwarp();
    thread::store(row.data() + lane, thread::load(row.data() + lane) + 1);
    ptx::syncwarp();
    if (lane == 0) {
      if (bug != LockBug::kNoFenceBeforeUnlock) ptx::fence_acq_rel<Scope::kGpu>();
      ptx::atom_global_exch(lock.data(), 0u);
    }
  });
  return equal(row, [](int) { return 4; });
}
TEST(GlobalRace, LockWithoutAFenceInside) {
  expect_planted({Fault::kRace}, locked, LockBug::kNoFenceInside);
}
TEST(GlobalRace, UnlockWithoutAFence) {
  expect_planted({Fault::kRace}, locked, LockBug::kNoFenceBeforeUnlock);
}

enum class PublishBug { kNone, kReadOfTheSource, kNoWait };

// A block publishes a tile by a bulk store. Planted: the flag is raised when the tile has been read
// from shared memory, and not yet written; or with no wait for the writes at all before the flag.
Result bulk_publish(PublishBug bug) {
  struct Storage {
    SharedArray<int, 32, 128> tile;
  };
  test::Buffer<int> tile(32);
  test::Buffer<int> out(32);
  test::Buffer<uint32_t> flag(1);
  launch_with<Storage>({.blocks = 2, .threads = 32}, [&](Storage& shared) {
    const int lane = lane_index();
    if (block_index() == 0) {
      shared.tile[lane] = lane;
      ptx::fence_proxy_async();
      ptx::syncwarp();
      if (lane == 0) {
        ptx::bulk_store(tile.data(), shared.tile.pointer(), 128);
        ptx::bulk_commit_group();
        if (bug == PublishBug::kNone) ptx::bulk_wait_group<0>();
        if (bug == PublishBug::kReadOfTheSource) ptx::bulk_wait_group_read<0>();
        ptx::st_release<Scope::kGpu>(flag.data(), 1u);
        ptx::bulk_wait_group<0>();
      }
    } else {
      while (ptx::ld_acquire<Scope::kGpu>(flag.data()) == 0) {
      }
      thread::store(out.data() + lane, thread::load(tile.data() + lane));
    }
  });
  return equal(out, [](int i) { return i; });
}
TEST(GlobalRace, FlagBeforeTheBulkStoreHasWritten) {
  expect_planted({Fault::kRace, Fault::kInvalidUse}, bulk_publish, PublishBug::kReadOfTheSource);
}
TEST(GlobalRace, FlagWithoutAWaitForTheBulkStore) {
  expect_planted({Fault::kRace, Fault::kInvalidUse}, bulk_publish, PublishBug::kNoWait);
}

// ---- ld.global.nc ------------------------------------------------------------------------------

enum class ReadOnlyBug { kNone, kOwnStore, kOfAnotherBlock, kWrittenLater };

// x is read by ld.global.nc, y is written and read. Planted: the same way to read y, in the thread
// that wrote it, or, behind a grid barrier, in another block; or x is overwritten in the end.
Result read_only(ReadOnlyBug bug) {
  using enum ReadOnlyBug;
  test::Buffer<float> x(filled<float>(64, [](int i) { return i; }));
  test::Buffer<float> y(64);
  test::Buffer<float> out(64);
  test::Buffer<uint32_t> counter(1);
  launch({.blocks = 2, .threads = 32, .cooperative = true}, [&](std::byte*) {
    const int i = static_cast<int>(block_index()) * 32 + thread_index();
    const float value = 2 * thread::load<Cache::kReadOnly>(x.data() + i);
    thread::store(y.data() + i, value);
    const float again = bug == kOwnStore ? thread::load<Cache::kReadOnly>(y.data() + i)
                                         : thread::load(y.data() + i);
    ptx::grid_sync(counter.data());
    const int j = 63 - i;
    const float other = bug == kOfAnotherBlock ? thread::load<Cache::kReadOnly>(y.data() + j)
                                               : thread::load(y.data() + j);
    thread::store(out.data() + i, again + other);
    if (bug == kWrittenLater) thread::store(x.data() + i, other);
  });
  return equal(out, [](int) { return 126; });
}
TEST(ReadOnlyLoad, OfTheThreadsOwnStore) {
  expect_planted({Fault::kInvalidUse}, read_only, ReadOnlyBug::kOwnStore);
}
TEST(ReadOnlyLoad, OfAnotherBlocksStore) {
  expect_planted({Fault::kInvalidUse}, read_only, ReadOnlyBug::kOfAnotherBlock);
}
TEST(ReadOnlyLoad, OfWhatIsWrittenLater) {
  expect_planted({Fault::kInvalidUse}, read_only, ReadOnlyBug::kWrittenLater);
}

// ---- The async proxy in global memory ----------------------------------------------------------

enum class ProxyBug { kNone, kNoFence, kFenceBeforeTheStores, kFenceOfSharedMemory };
enum class Load { kBulk, kTensor, kOwnBlock };

// One half of the grid writes, a grid barrier, all load it by copies. Planted: the writers do not
// fence for the async proxy; do so before they store; fence what they did to shared memory.
Result copies_of_fresh_memory(ProxyBug bug, Load load) {
  struct Storage {
    SharedArray<int, 64, 128> tile;
    ptx::Mbarrier full;
  };
  test::Buffer<int> x(2 * 64);
  test::Buffer<int> out(2 * 64);
  test::Buffer<uint32_t> counter(1);
  const ptx::TensorMap map =
      ptx::make_tensor_map_2d(x.data(), 2, 64, 64, 1, 64, ptx::Swizzle::kNone);
  launch_with<Storage>({.blocks = 2, .threads = 64, .cooperative = true}, [&](Storage& shared) {
    const int me = thread_index();
    const auto block = static_cast<int>(block_index());
    const int from = load == Load::kOwnBlock ? block : 1 - block;
    if (me == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
    }
    if (bug == ProxyBug::kFenceBeforeTheStores) ptx::fence_proxy_async_global();
    thread::store(x.data() + block * 64 + me, block * 64 + me);
    if (bug == ProxyBug::kFenceOfSharedMemory) ptx::fence_proxy_async();
    if (bug == ProxyBug::kNone) ptx::fence_proxy_async_global();
    if (load == Load::kOwnBlock) {
      ptx::barrier_sync();
    } else {
      ptx::grid_sync(counter.data());
    }
    if (me == 0) {
      ptx::mbarrier_arrive_expect_tx(shared.full, 256);
      if (load == Load::kTensor) {
        ptx::tensor_load_2d(shared.tile.pointer(), map, shared.full, 0, from);
      } else {
        ptx::bulk_load(shared.tile.pointer(), x.data() + from * 64, 256, shared.full);
      }
    }
    ptx::mbarrier_wait_parity(shared.full, 0);
    thread::store(out.data() + from * 64 + me, int{shared.tile[me]});
  });
  return equal(out, [](int i) { return i; });
}
TEST(GlobalProxy, NoFence) {
  for (const Load load : {Load::kBulk, Load::kTensor, Load::kOwnBlock}) {
    const auto kernel = [=](ProxyBug bug) { return copies_of_fresh_memory(bug, load); };
    expect_planted({Fault::kInvalidUse}, kernel, ProxyBug::kNoFence);
  }
}
TEST(GlobalProxy, FenceBeforeTheStores) {
  const auto kernel = [](ProxyBug bug) { return copies_of_fresh_memory(bug, Load::kBulk); };
  expect_planted({Fault::kInvalidUse}, kernel, ProxyBug::kFenceBeforeTheStores);
}
TEST(GlobalProxy, FenceOfSharedMemory) {
  const auto kernel = [](ProxyBug bug) { return copies_of_fresh_memory(bug, Load::kTensor); };
  expect_planted({Fault::kInvalidUse}, kernel, ProxyBug::kFenceOfSharedMemory);
}

}  // namespace
}  // namespace ws::emulator
