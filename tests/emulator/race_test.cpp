// Races in the shared memory of a block: kernels with one planted bug each, and their correct form.
#include "tests/emulator/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/stmatrix.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;

// What may be said where the order decides whether the other access is a copy in flight, memory
// that nobody has written yet, or a race.
constexpr std::initializer_list<Fault> kRaceOrUnwritten = {Fault::kRace, Fault::kUnwrittenRead};
constexpr std::initializer_list<Fault> kRaceOrCopy = {Fault::kRace, Fault::kUnwrittenRead,
                                                      Fault::kInvalidUse};

// ---- Barriers of the block ---------------------------------------------------------------------

// Planted: no syncwarp in the last steps, as if the lanes of a warp went in step.
Result tree_reduction(bool broken) {
  struct Storage {
    SharedArray<int, 256> x;
  };
  test::Buffer<int> out(1);
  launch_with<Storage>({.threads = 256}, [&](Storage& shared) {
    const int me = thread_index();
    shared.x[me] = me;
    ptx::barrier_sync();
    for (int stride = 128; stride > 16; stride /= 2) {
      if (me < stride) shared.x[me] = shared.x[me] + shared.x[me + stride];
      ptx::barrier_sync();
    }
    if (me >= 32) return;
    for (int stride = 16; stride > 0; stride /= 2) {
      if (me < stride) shared.x[me] = shared.x[me] + shared.x[me + stride];
      if (!broken) ptx::syncwarp();
    }
    if (me == 0) thread::store(out.data(), int{shared.x[0]});
  });
  return equal(out, [](int) { return 255 * 256 / 2; });
}
TEST(SharedRace, TreeReductionWithoutSyncwarp) { expect_planted({Fault::kRace}, tree_reduction); }

// Planted: each step of the scan reads and writes in place with one barrier instead of two.
Result scan_in_place(bool broken) {
  struct Storage {
    SharedArray<int, 128> x;
  };
  test::Buffer<int> out(128);
  launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
    const int me = thread_index();
    shared.x[me] = 1;
    ptx::barrier_sync();
    for (int distance = 1; distance < 128; distance *= 2) {
      const int before = me >= distance ? int{shared.x[me - distance]} : 0;
      if (!broken) ptx::barrier_sync();
      shared.x[me] = shared.x[me] + before;
      ptx::barrier_sync();
    }
    thread::store(out.data() + me, int{shared.x[me]});
  });
  return equal(out, [](int i) { return i + 1; });
}
TEST(SharedRace, ScanThatWritesWhatOthersStillRead) {
  expect_planted({Fault::kRace}, scan_in_place);
}

enum class TileBug { kNone, kBeforeRead, kBeforeWrite };

// Tiles pass through one buffer, and each thread reads what another one brought. Planted: no
// barrier after the stores, or none before the next tile's.
Result tile_loop(TileBug bug) {
  struct Storage {
    SharedArray<float, 64> tile;
  };
  constexpr int kTiles = 5;
  test::Buffer<float> in(filled<float>(64 * kTiles, [](int i) { return i % 17; }));
  test::Buffer<float> out(64);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    shared.tile[me] = 0;  // so that what is read too early is plausible
    ptx::barrier_sync();
    float sum = 0;
    for (int tile = 0; tile < kTiles; ++tile) {
      shared.tile[me] = thread::load(in.data() + tile * 64 + me);
      if (bug != TileBug::kBeforeRead) ptx::barrier_sync();
      sum += shared.tile[63 - me];
      if (bug != TileBug::kBeforeWrite) ptx::barrier_sync();
    }
    thread::store(out.data() + me, sum);
  });
  return equal(out, [](int i) {
    int sum = 0;
    for (int tile = 0; tile < kTiles; ++tile) sum += (tile * 64 + 63 - i) % 17;
    return sum;
  });
}
TEST(SharedRace, TileReadBeforeTheBarrier) {
  expect_planted({Fault::kRace}, tile_loop, TileBug::kBeforeRead);
}
TEST(SharedRace, TileOverwrittenBeforeTheBarrier) {
  expect_planted({Fault::kRace}, tile_loop, TileBug::kBeforeWrite);
}

// Two block reductions share their scratch, as the maximum and the sum of a softmax do. Planted: no
// barrier between the first one's reads and the second one's stores. A narrow window: it takes a
// warp that is two steps ahead.
Result two_reductions(bool broken) {
  struct Storage {
    SharedArray<float, 4> partial;
  };
  test::Buffer<float> out(128);
  launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
    const auto reduce = [&](float mine, auto combine) {
      for (int lanes = 16; lanes > 0; lanes /= 2) {
        mine = combine(mine, std::bit_cast<float>(ptx::shfl_sync_bfly(
                                 kFullMask, std::bit_cast<uint32_t>(mine), lanes)));
      }
      if (lane_index() == 0) shared.partial[warp_index()] = mine;
      ptx::barrier_sync();
      float all = shared.partial[0];
      for (int warp = 1; warp < 4; ++warp) all = combine(all, float{shared.partial[warp]});
      return all;
    };
    const auto mine = static_cast<float>(thread_index() % 8);
    const float largest = reduce(mine, [](float a, float b) { return std::max(a, b); });
    if (!broken) ptx::barrier_sync();
    const float sum = reduce(mine - largest, [](float a, float b) { return a + b; });
    thread::store(out.data() + thread_index(), sum);
  });
  return equal(out, [](int) { return -28 * 16; });
}
TEST(SharedRace, ScratchOfTwoReductions) { expect_planted({Fault::kRace}, two_reductions); }

// Each warp counts its elements. Planted: lanes share the warp's counters, and lose counts.
Result histogram(bool broken) {
  struct Storage {
    SharedArray<int, 64 * 4> counts;  // [thread or warp, bin]
  };
  test::Buffer<int> out(4);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    for (int bin = 0; bin < 4; ++bin) shared.counts[me * 4 + bin] = 0;
    ptx::barrier_sync();
    const int row = broken ? warp_index() : me;
    for (int i = 0; i < 4; ++i) {
      const int bin = (me + i * i) % 4;
      shared.counts[row * 4 + bin] = shared.counts[row * 4 + bin] + 1;
    }
    ptx::barrier_sync();
    if (me >= 4) return;
    int sum = 0;
    for (int from = 0; from < 64; ++from) sum += shared.counts[from * 4 + me];
    thread::store(out.data() + me, sum);
  });
  return equal(out, [](int) { return 64; });
}
TEST(SharedRace, LostCounts) { expect_planted({Fault::kRace}, histogram); }

// Pairs of threads fill the halves of a word. Planted: by reading, changing and writing the word.
Result packed_halves(bool broken) {
  struct Storage {
    SharedArray<uint32_t, 32> words;
  };
  test::Buffer<uint32_t> out(32);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    if (me < 32) shared.words[me] = 0;
    ptx::barrier_sync();
    if (broken) {
      const uint32_t other = shared.words[me / 2];
      shared.words[me / 2] = other | static_cast<uint32_t>(me) << (me % 2 * 16);
    } else {
      const SharedSpan<uint16_t> halves(reinterpret_cast<uint16_t*>(shared.words.pointer()), 64);
      halves[me] = static_cast<uint16_t>(me);
    }
    ptx::barrier_sync();
    if (me < 32) thread::store(out.data() + me, uint32_t{shared.words[me]});
  });
  return equal(out, [](int i) { return 2 * i + ((2 * i + 1) << 16); });
}
TEST(SharedRace, HalvesOfAWord) { expect_planted({Fault::kRace}, packed_halves); }

enum class QuadBug { kNone, kVectorThenScalars, kScalars, kScalarsThenVector, kVectorUnderScalars };

// Four words are reached together by some threads and one by one by others, in turns. Planted: one
// of the barriers between is missing.
Result quads(QuadBug bug) {
  struct Storage {
    SharedArray<float, 128, 16> x;
  };
  using enum QuadBug;
  constexpr int kRounds = 2;
  test::Buffer<float> out(128);
  launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
    const int me = thread_index();
    for (int round = 0; round < kRounds; ++round) {
      const auto first = static_cast<float>(4 * me + round);
      if (me < 32) shared.x.store<4>(4 * me, {first, first + 1, first + 2, first + 3});
      if (bug != kVectorThenScalars) ptx::barrier_sync();
      const float other = shared.x[127 - me];
      if (bug != kScalars) ptx::barrier_sync();
      shared.x[me] = other + 1;
      if (bug != kScalarsThenVector) ptx::barrier_sync();
      Vec<float, 4> four{};
      if (me < 32) four = shared.x.load<4>(4 * me);
      if (bug != kVectorUnderScalars) ptx::barrier_sync();
      shared.x[me] = 0;
      if (me < 32) thread::store(out.data() + 4 * me, four);
      ptx::barrier_sync();
    }
  });
  return equal(out, [](int i) { return 127 - i + kRounds; });
}
TEST(SharedRace, ScalarsOfAVectorBeforeTheBarrier) {
  expect_planted({Fault::kRace, Fault::kUnwrittenRead}, quads, QuadBug::kVectorThenScalars);
}
TEST(SharedRace, ScalarsBesideScalars) { expect_planted({Fault::kRace}, quads, QuadBug::kScalars); }
TEST(SharedRace, VectorOfScalarsBeforeTheBarrier) {
  expect_planted({Fault::kRace}, quads, QuadBug::kScalarsThenVector);
}
TEST(SharedRace, ScalarsUnderAVectorsRead) {
  expect_planted({Fault::kRace}, quads, QuadBug::kVectorUnderScalars);
}

// The output tile lies where the input tile lay. Planted: no barrier after the main loop, so quick
// warps write results over what slow ones still read.
Result epilogue_over_operands(bool broken) {
  struct Storage {
    SharedArray<float, 128> a_then_c;
  };
  test::Buffer<float> out(128);
  launch_with<Storage>({.threads = 128}, [&](Storage& shared) {
    const int me = thread_index();
    shared.a_then_c[me] = 1.0F;
    ptx::barrier_sync();
    float sum = 0;
    for (int k = 0; k < 128; k += 16) sum += shared.a_then_c[(me + k) % 128];
    if (!broken) ptx::barrier_sync();
    shared.a_then_c[me] = sum;
    ptx::barrier_sync();
    thread::store(out.data() + me, float{shared.a_then_c[127 - me]});
  });
  return equal(out, [](int) { return 8; });
}
TEST(SharedRace, EpilogueOverOperands) { expect_planted({Fault::kRace}, epilogue_over_operands); }

// ---- Within a warp -----------------------------------------------------------------------------

// Planted: no syncwarp between the rows that a warp writes and the columns that it reads.
Result warp_transpose(bool broken) {
  struct Storage {
    SharedArray<int, 32 * 33> tile;
  };
  test::Buffer<int> out(32 * 32);
  launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
    const int lane = lane_index();
    for (int i = 0; i < 33; ++i) shared.tile[i * 32 + lane] = 0;
    ptx::syncwarp();
    for (int row = 0; row < 32; ++row) shared.tile[row * 33 + lane] = row * 32 + lane;
    if (!broken) ptx::syncwarp();
    for (int row = 0; row < 32; ++row) {
      thread::store(out.data() + row * 32 + lane, int{shared.tile[lane * 33 + row]});
    }
  });
  return equal(out, [](int i) { return i % 32 * 32 + i / 32; });
}
TEST(SharedRace, WarpTranspose) { expect_planted({Fault::kRace}, warp_transpose); }

enum class Instead { kSyncwarp, kShuffle, kVote };

// Lane 0 tells the warp where to go on. Planted: a shuffle or a vote in place of syncwarp; they
// make the lanes meet, and order no memory.
Result warp_broadcast(Instead instead) {
  struct Storage {
    SharedArray<int, 2> next;
  };
  test::Buffer<int> out(64);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int warp = warp_index();
    if (lane_index() == 0) shared.next[warp] = 0;
    ptx::syncwarp();
    int seen = 0;
    for (int round = 0; round < 3; ++round) {
      if (lane_index() == 0) shared.next[warp] = round * 10 + warp;
      if (instead == Instead::kShuffle) ptx::shfl_sync_idx(kFullMask, 0, 0);
      if (instead == Instead::kVote) ptx::vote_sync_any(kFullMask, true);
      if (instead == Instead::kSyncwarp) ptx::syncwarp();
      seen += shared.next[warp];
      ptx::syncwarp();
    }
    thread::store(out.data() + thread_index(), seen);
  });
  return equal(out, [](int i) { return 30 + 3 * (i / 32); });
}
TEST(SharedRace, ShuffleInsteadOfSyncwarp) {
  expect_planted({Fault::kRace}, warp_broadcast, Instead::kShuffle);
}
TEST(SharedRace, VoteInsteadOfSyncwarp) {
  expect_planted({Fault::kRace}, warp_broadcast, Instead::kVote);
}

// Planted: syncwarp names the lower half, and the upper half reads as well.
Result half_mask(bool broken) {
  struct Storage {
    SharedArray<int, 32> x;
  };
  test::Buffer<int> out(32);
  launch_with<Storage>({.threads = 32}, [&](Storage& shared) {
    const int lane = lane_index();
    shared.x[lane] = -1;
    ptx::syncwarp();
    shared.x[lane] = lane;
    if (!broken) {
      ptx::syncwarp();
    } else if (lane < 16) {
      ptx::syncwarp(0x0000FFFF);
    }
    thread::store(out.data() + lane, int{shared.x[31 - lane]});
  });
  return equal(out, [](int i) { return 31 - i; });
}
TEST(SharedRace, SyncwarpOfHalfAWarp) { expect_planted({Fault::kRace}, half_mask); }

// ---- Named barriers ----------------------------------------------------------------------------

// Warp 0 produces, warp 1 consumes, through one buffer with a barrier for "full" and one for
// "empty". Planted: the producer does not wait for "empty".
Result named_barriers(bool broken) {
  struct Storage {
    SharedArray<int, 32> buffer;
  };
  constexpr int kFull = 1;
  constexpr int kEmpty = 2;
  test::Buffer<int> out(32);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int lane = lane_index();
    int sum = 0;
    for (int step = 0; step < 4; ++step) {
      if (warp_index() == 0) {
        if (step > 0 && broken) ptx::barrier_arrive(kEmpty, 64);
        if (step > 0 && !broken) ptx::barrier_sync(kEmpty, 64);
        shared.buffer[lane] = step * lane;
        ptx::barrier_arrive(kFull, 64);
      } else {
        ptx::barrier_sync(kFull, 64);
        sum += shared.buffer[31 - lane];
        // The last step's is not awaited any more.
        if (step < 3 && broken) ptx::barrier_sync(kEmpty, 64);
        if (step < 3 && !broken) ptx::barrier_arrive(kEmpty, 64);
      }
    }
    if (warp_index() == 1) thread::store(out.data() + lane, sum);
  });
  return equal(out, [](int i) { return 6 * (31 - i); });
}
TEST(SharedRace, ProducerDoesNotWaitForEmpty) {
  // A second arrival at a barrier that waits for others is refused as such.
  expect_planted({Fault::kRace, Fault::kInvalidUse}, named_barriers);
}

// Two warpgroups, each with a barrier of its own; at the end they exchange halves. Planted: the
// exchange is behind the warpgroup's barrier where it takes the block's.
Result barrier_of_half_a_block(bool broken) {
  struct Storage {
    SharedArray<int, 256> x;
  };
  test::Buffer<int> out(256);
  launch_with<Storage>({.threads = 256}, [&](Storage& shared) {
    const int me = thread_index();
    shared.x[me] = 0;
    ptx::barrier_sync();
    shared.x[me] = me;
    if (broken) {
      ptx::barrier_sync(1 + me / 128, 128);
    } else {
      ptx::barrier_sync();
    }
    thread::store(out.data() + me, int{shared.x[(me + 100) % 256]});
  });
  return equal(out, [](int i) { return (i + 100) % 256; });
}
TEST(SharedRace, BarrierOfHalfABlock) { expect_planted({Fault::kRace}, barrier_of_half_a_block); }

// ---- ldmatrix, stmatrix ------------------------------------------------------------------------

enum class MatrixBug { kNone, kBeforeLoad, kAfterLoad };

// Warp 0 writes fragments, warp 1 loads them by ldmatrix. Planted: no barrier before it, or none
// between it and the next stores.
Result matrices(MatrixBug bug) {
  struct Storage {
    SharedArray<uint16_t, 4 * 64, 128> rows;  // four 8x8 matrices
  };
  test::Buffer<uint32_t> out(32);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int lane = lane_index();
    for (int i = thread_index(); i < 256; i += 64) shared.rows[i] = 0;
    ptx::barrier_sync();
    uint32_t sum = 0;
    for (int step = 0; step < 3; ++step) {
      if (warp_index() == 0) {
        for (int i = 0; i < 8; ++i) shared.rows[lane * 8 + i] = static_cast<uint16_t>(lane + step);
      }
      if (bug != MatrixBug::kBeforeLoad) ptx::barrier_sync();
      if (warp_index() == 1) {
        uint32_t r[4];
        ptx::ldmatrix_x4(r, shared.rows.pointer(lane * 8));
        for (const uint32_t pair : r) sum += pair & 0xFFFF;
      }
      if (bug != MatrixBug::kAfterLoad) ptx::barrier_sync();
    }
    if (warp_index() == 1) thread::store(out.data() + lane, sum);
  });
  // Register m of lane i is of row i / 4 of matrix m, which lane 8 m + i / 4 wrote.
  return equal(out, [](int i) { return 3 * (4 * (i / 4) + 8 + 16 + 24) + 4 * 3; });
}
TEST(SharedRace, LdmatrixBeforeTheBarrier) {
  expect_planted({Fault::kRace}, matrices, MatrixBug::kBeforeLoad);
}
TEST(SharedRace, LdmatrixThenStores) {
  expect_planted({Fault::kRace}, matrices, MatrixBug::kAfterLoad);
}

// An epilogue: fragments by stmatrix, then whole rows to global memory, warp by warp. Planted: no
// syncwarp between, or none before the next fragments come.
Result staged_epilogue(MatrixBug bug) {
  struct Storage {
    SharedArray<uint16_t, 2 * 256, 128> rows;  // of each warp 32 rows of 8
  };
  constexpr int kSteps = 2;
  test::Buffer<uint16_t> out(kSteps * 2 * 256);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int lane = lane_index();
    const int row = warp_index() * 256 + lane * 8;
    for (int i = 0; i < 8; ++i) shared.rows[row + i] = 0;
    ptx::syncwarp();
    for (int step = 0; step < kSteps; ++step) {
      const auto value = static_cast<uint32_t>(100 * step + lane / 4);
      const uint32_t pair = value | (value << 16);
      ptx::stmatrix_x4(shared.rows.pointer(row), {pair, pair, pair, pair});
      if (bug != MatrixBug::kBeforeLoad) ptx::syncwarp();
      const int other = warp_index() * 256 + (31 - lane) * 8;
      thread::store(out.data() + step * 512 + other, shared.rows.load<8>(other));
      if (bug != MatrixBug::kAfterLoad) ptx::syncwarp();
    }
  });
  return equal(out, [](int i) { return 100 * (i / 512) + i / 8 % 8; });
}
TEST(SharedRace, StmatrixThenLoads) {
  expect_planted({Fault::kRace}, staged_epilogue, MatrixBug::kBeforeLoad);
}
TEST(SharedRace, LoadsThenStmatrix) {
  expect_planted({Fault::kRace}, staged_epilogue, MatrixBug::kAfterLoad);
}

// ---- Copies ------------------------------------------------------------------------------------

enum class StageBug { kNone, kNoBarrierAfterWait, kNoBarrierBeforeCopy };

// The GEMM loop of Ampere: cp.async into a ring of three stages, two ahead. Planted: each thread
// waits for its own copies and reads others'; or a stage is filled again while others read it.
Result copy_ring(StageBug bug) {
  struct Storage {
    SharedArray<int, 3 * 64, 128> stages;
  };
  constexpr int kSteps = 7;
  test::Buffer<int> in(filled<int>(64 * kSteps, [](int i) { return i; }));
  test::Buffer<int> out(64);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    const auto fetch = [&](int step) {
      if (step < kSteps) {
        ptx::cp_async<4>(shared.stages.pointer(step % 3 * 64 + me), in.data() + step * 64 + me);
      }
      ptx::cp_async_commit_group();  // maybe empty, so that the count stays right
    };
    fetch(0);
    fetch(1);
    int sum = 0;
    for (int step = 0; step < kSteps; ++step) {
      ptx::cp_async_wait_group<1>();
      // This one barrier says that the stage is full, and that the one before it is free again.
      if (bug != StageBug::kNoBarrierAfterWait) ptx::barrier_sync();
      if (bug == StageBug::kNoBarrierBeforeCopy) {
        // The stage in use instead of the one that is free.
        if (step + 3 < kSteps) {
          ptx::cp_async<4>(shared.stages.pointer(step % 3 * 64 + me),
                           in.data() + (step + 3) * 64 + me);
        }
        ptx::cp_async_commit_group();
      } else {
        fetch(step + 2);
      }
      sum += shared.stages[step % 3 * 64 + 63 - me];
    }
    thread::store(out.data() + me, sum);
  });
  return equal(out, [](int i) { return 64 * 21 + 7 * (63 - i); });
}
TEST(SharedRace, OthersCopiesWithoutABarrier) {
  expect_planted(kRaceOrCopy, copy_ring, StageBug::kNoBarrierAfterWait);
}
TEST(SharedRace, CopyIntoTheStageInUse) {
  expect_planted(kRaceOrCopy, copy_ring, StageBug::kNoBarrierBeforeCopy);
}

enum class StoreBug { kNone, kBeforeStore, kBeforeReuse };

// A staged epilogue with bulk stores: all write, thread 0 stores, all write again. Planted: no
// barrier before the store; or none behind thread 0's wait for it, which it alone knows of.
Result bulk_epilogue(StoreBug bug) {
  struct Storage {
    SharedArray<int, 64, 128> stage;
  };
  test::Buffer<int> out(3 * 64);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int me = thread_index();
    shared.stage[me] = -1;
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    for (int tile = 0; tile < 3; ++tile) {
      shared.stage[me] = tile * 64 + me;
      ptx::fence_proxy_async();
      if (bug != StoreBug::kBeforeStore) ptx::barrier_sync();
      if (me == 0) {
        ptx::bulk_store(out.data() + tile * 64, shared.stage.pointer(), 256);
        ptx::bulk_commit_group();
        ptx::bulk_wait_group_read<0>();
      }
      if (bug != StoreBug::kBeforeReuse) ptx::barrier_sync();
    }
    if (me == 0) ptx::bulk_wait_group<0>();
  });
  return equal(out, [](int i) { return i; });
}
TEST(SharedRace, BulkStoreBeforeTheBarrier) {
  expect_planted(kRaceOrCopy, bulk_epilogue, StoreBug::kBeforeStore);
}
TEST(SharedRace, StageReusedUnderABulkStore) {
  expect_planted(kRaceOrCopy, bulk_epilogue, StoreBug::kBeforeReuse);
}

// ---- Rings of mbarriers ------------------------------------------------------------------------

enum class RingBug {
  kNone,
  kReleaseFirst,         // the stage is let go of before it is read
  kOneLaneWaits,         // ... and the others read with no syncwarp behind it
  kReleaseWithoutSync,   // one lane lets go for the warp while others still read
  kParityNeverFlips,     // from the second round on, the wait for "full" returns at once
  kProducerDoesNotWait,  // ... for "empty"
  kOneConsumerReleases,  // of two warps that read, and the count says so
};

// A producing lane fills two stages by bulk copies, two warps consume.
Result ring(RingBug bug) {
  constexpr int kStages = 2;
  constexpr int kSteps = 7;
  struct Storage {
    SharedArray<int, kStages * 32, 128> stages;
    tile::Pipeline<kStages> pipeline;
  };
  test::Buffer<int> in(filled<int>(32 * kSteps, [](int i) { return i; }));
  test::Buffer<int> out(64);
  launch_with<Storage>({.threads = 96}, [&](Storage& shared) {
    if (thread_index() == 0) {
      shared.pipeline.init(bug == RingBug::kOneConsumerReleases ? 1 : 2);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    tile::PipelinePosition<kStages> position;
    if (warp_index() == 2) {
      if (lane_index() != 0) return;
      for (int step = 0; step < kSteps; ++step, position.advance()) {
        ptx::Mbarrier& full = shared.pipeline.full[position.stage];
        if (bug == RingBug::kProducerDoesNotWait) {
          ptx::mbarrier_arrive_expect_tx(full, 128);
        } else {
          shared.pipeline.acquire(position, 128);
        }
        ptx::bulk_load(shared.stages.pointer(position.stage * 32), in.data() + step * 32, 128,
                       full);
      }
      return;
    }
    int sum = 0;
    for (int step = 0; step < kSteps; ++step, position.advance()) {
      const int stage = position.stage;
      if (bug == RingBug::kParityNeverFlips) {
        ptx::mbarrier_wait_parity(shared.pipeline.full[stage], 0);
      } else if (bug == RingBug::kOneLaneWaits) {
        if (lane_index() == 0) shared.pipeline.wait(position);
      } else {
        shared.pipeline.wait(position);
      }
      const auto release = [&] {
        const bool mine = bug != RingBug::kOneConsumerReleases || warp_index() == 0;
        if (bug != RingBug::kReleaseWithoutSync) ptx::syncwarp();
        if (mine && lane_index() == 0) shared.pipeline.release(stage);
      };
      if (bug == RingBug::kReleaseFirst) release();
      sum += shared.stages[stage * 32 + 31 - lane_index()];
      if (bug != RingBug::kReleaseFirst) release();
    }
    thread::store(out.data() + thread_index(), sum);
  });
  return equal(out, [](int i) { return 32 * 21 + 7 * (31 - i % 32); });
}
TEST(RingRace, ReleasedBeforeItIsRead) {
  expect_planted(kRaceOrCopy, ring, RingBug::kReleaseFirst);
}
TEST(RingRace, OneLaneWaitsForTheWarp) {
  expect_planted(kRaceOrUnwritten, ring, RingBug::kOneLaneWaits);
}
TEST(RingRace, OneLaneReleasesForTheWarp) {
  expect_planted(kRaceOrCopy, ring, RingBug::kReleaseWithoutSync);
}
TEST(RingRace, ParityThatNeverFlips) {
  // Who waits for a phase that has passed may also be told so, or wait for ever.
  expect_planted({Fault::kRace, Fault::kUnwrittenRead, Fault::kInvalidUse, Fault::kDeadlock}, ring,
                 RingBug::kParityNeverFlips);
}
TEST(RingRace, ProducerThatDoesNotWait) {
  expect_planted(kRaceOrCopy, ring, RingBug::kProducerDoesNotWait);
}
TEST(RingRace, OneOfTwoConsumersReleases) {
  expect_planted({Fault::kRace, Fault::kUnwrittenRead, Fault::kInvalidUse, Fault::kDeadlock}, ring,
                 RingBug::kOneConsumerReleases);
}

// mbarriers between threads that store and threads that load, with no copies. Planted: the arrival
// comes before the store that it should tell of.
Result arrival_before_the_store(bool broken) {
  struct Storage {
    SharedArray<int, 32> x;
    ptx::Mbarrier full;
  };
  test::Buffer<int> out(32);
  launch_with<Storage>({.threads = 64}, [&](Storage& shared) {
    const int lane = lane_index();
    if (thread_index() == 0) ptx::mbarrier_init(shared.full, 32);
    if (warp_index() == 0) shared.x[lane] = 0;
    ptx::barrier_sync();
    if (warp_index() == 0) {
      if (broken) ptx::mbarrier_arrive(shared.full);
      shared.x[lane] = lane;
      if (!broken) ptx::mbarrier_arrive(shared.full);
    } else {
      ptx::mbarrier_wait_parity(shared.full, 0);
      thread::store(out.data() + lane, int{shared.x[31 - lane]});
    }
  });
  return equal(out, [](int i) { return 31 - i; });
}
TEST(RingRace, ArrivalBeforeTheStore) { expect_planted({Fault::kRace}, arrival_before_the_store); }

}  // namespace
}  // namespace ws::emulator
