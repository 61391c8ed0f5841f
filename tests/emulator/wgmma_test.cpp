// wgmma: missing barriers before and behind it, and registers touched when they must not be. Each
// kernel with its planted bugs, and its correct form.
#include "tests/emulator/products.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::emulator {
namespace {

using Result = testing::AssertionResult;

constexpr LaunchShape kWarpgroup{.threads = 128};

// A product whose operands are not ready: what other warps write (or copy) is a race, and found
// unwritten or unfenced where they have not got so far.
constexpr std::initializer_list<Fault> kNotReady = {Fault::kRace, Fault::kUnwrittenRead,
                                                    Fault::kInvalidUse};
// A product whose operands change while it runs.
constexpr std::initializer_list<Fault> kInFlight = {Fault::kRace, Fault::kInvalidUse};

// One product, from issue to its end.
void multiply(float (&d)[8], uint64_t a, uint64_t b, bool accumulate) {
  ptx::wgmma_fence(d);
  ptx::wgmma_m64k16<16, half>(d, a, b, accumulate);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>(d);
}

// ---- Barriers before and behind products -------------------------------------------------------

enum class Sync { kBlock, kNone, kWarp, kWait };

// All threads fill A and B, then the product. Planted: nothing but wgmma.fence between, which is no
// barrier; or a syncwarp, though B is of all warps; or the fence of the proxy alone.
Result fill_and_multiply(Sync sync) {
  test::Buffer<float> out(64 * 16);
  launch_with<Operands>(kWarpgroup, [&](Operands& shared) {
    const int me = thread_index();
    // Each warp its own rows of A, so that B alone is what others bring.
    fill_a(shared.a, 0, lane_index(), 32, warp_index() * 16, 16);
    fill_b(shared.b, 0, me, 128);
    ptx::fence_proxy_async();
    if (sync == Sync::kBlock) ptx::barrier_sync();
    if (sync == Sync::kWarp) ptx::syncwarp();
    float d[8] = {};
    multiply(d, shared.a.descriptor(), shared.b.descriptor(), false);
    store_d(out.data(), d);
  });
  return is_product(out);
}
TEST(WgmmaRace, NoBarrierBeforeTheProduct) {
  expect_planted(kNotReady, fill_and_multiply, Sync::kNone);
}
TEST(WgmmaRace, SyncwarpBeforeTheProduct) {
  expect_planted(kNotReady, fill_and_multiply, Sync::kWarp);
}

enum class LoopBug { kNone, kBeforeProduct, kBehindProduct };

// A loop over K through one pair of tiles. Planted: from the second step on no barrier between the
// stores and the product, which then finds the step before; or none behind the product: a warp
// whose own wait is over overwrites what the others' products still read.
Result loop_over_k(LoopBug bug) {
  constexpr int kSteps = 3;
  test::Buffer<float> out(64 * 16);
  launch_with<Operands>(kWarpgroup, [&](Operands& shared) {
    const int me = thread_index();
    float d[8] = {};
    for (int step = 0; step < kSteps; ++step) {
      fill_a(shared.a, step, me, 128);
      fill_b(shared.b, step, me, 128);
      ptx::fence_proxy_async();
      if (bug != LoopBug::kBeforeProduct || step == 0) ptx::barrier_sync();
      multiply(d, shared.a.descriptor(), shared.b.descriptor(), step > 0);
      if (bug != LoopBug::kBehindProduct) ptx::barrier_sync();
    }
    store_d(out.data(), d);
  });
  return is_product(out, kSteps);
}
TEST(WgmmaRace, LoopWithoutABarrierBeforeTheProduct) {
  expect_planted(kNotReady, loop_over_k, LoopBug::kBeforeProduct);
}
TEST(WgmmaRace, LoopWithoutABarrierBehindTheProduct) {
  expect_planted(kInFlight, loop_over_k, LoopBug::kBehindProduct);
}

// Attention: each warp writes its probabilities to shared memory, as A of the second product, and
// only a syncwarp follows. Planted: the rows are dealt round robin, so they are not the warp's own.
Result probabilities(bool broken) {
  struct Storage {
    OperandA p;
    OperandB v;
  };
  constexpr int kSteps = 2;
  test::Buffer<float> out(64 * 16);
  launch_with<Storage>(kWarpgroup, [&](Storage& shared) {
    fill_a(shared.p, 0, thread_index(), 128);
    fill_b(shared.v, 0, thread_index(), 128);
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    float d[8] = {};
    for (int step = 0; step < kSteps; ++step) {
      // V stays, and P is what it was: only who wrote it changes.
      for (int i = 0; i < 16; ++i) {
        const int row = broken ? 4 * i + warp_index() : 16 * warp_index() + i;
        fill_a(shared.p, 0, lane_index(), 32, row, 1);
      }
      ptx::fence_proxy_async();
      ptx::syncwarp();
      multiply(d, shared.p.descriptor(), shared.v.descriptor(), step > 0);
    }
    store_d(out.data(), d);
  });
  return is_product(out, 1, kSteps);
}
TEST(WgmmaRace, ProbabilitiesOfOtherWarps) { expect_planted(kNotReady, probabilities); }

// Two warpgroups, one product each; the second one's threads fill the B of both. Planted: the first
// one waits at a barrier of its own.
Result shared_b(bool broken) {
  struct Storage {
    OperandA a[2];
    OperandB b;
  };
  test::Buffer<float> out(2 * 64 * 16);
  launch_with<Storage>({.threads = 256}, [&](Storage& shared) {
    const int group = thread_index() / 128;
    const int me = thread_index() % 128;
    fill_b(shared.b, 1, thread_index(), 256);  // something that does no harm
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    fill_a(shared.a[group], 0, me, 128);
    if (group == 1) fill_b(shared.b, 0, me, 128);
    ptx::fence_proxy_async();
    if (broken) {
      ptx::barrier_sync(1 + group, 128);
    } else {
      ptx::barrier_sync(1, 256);
    }
    float d[8] = {};
    multiply(d, shared.a[group].descriptor(), shared.b.descriptor(), false);
    store_d(out.data() + group * 1024, d);
  });
  return is_product(out);
}
TEST(WgmmaRace, BarrierOfOneOfTwoWarpgroups) { expect_planted(kNotReady, shared_b); }

enum class CopyBug { kNone, kNoBarrier, kNoProxyFence };

// Operands by cp.async. Planted: each thread waits for its own copies and fences them, and no
// barrier follows; or the fence is missing in one warp.
Result copied_operands(CopyBug bug) {
  test::Buffer<half> a(image_a(1));
  test::Buffer<half> b(image_b(1));
  test::Buffer<float> out(64 * 16);
  launch_with<Operands>(kWarpgroup, [&](Operands& shared) {
    const int me = thread_index();
    ptx::cp_async<16>(shared.a.elements.pointer(me * 8), a.data() + me * 8);
    if (me < 32) ptx::cp_async<16>(shared.b.elements.pointer(me * 8), b.data() + me * 8);
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
    if (bug != CopyBug::kNoProxyFence || warp_index() != 0) ptx::fence_proxy_async();
    if (bug != CopyBug::kNoBarrier) ptx::barrier_sync();
    float d[8] = {};
    multiply(d, shared.a.descriptor(), shared.b.descriptor(), false);
    store_d(out.data(), d);
  });
  return is_product(out);
}
TEST(WgmmaRace, CopiesWithoutABarrier) {
  expect_planted(kNotReady, copied_operands, CopyBug::kNoBarrier);
}
TEST(WgmmaRace, CopiesWithoutTheProxyFenceInOneWarp) {
  expect_planted({Fault::kInvalidUse}, copied_operands, CopyBug::kNoProxyFence);
}

enum class GemmBug {
  kNone,
  kOneWarpWaitsForFull,  // the first of four
  kOneWarpReleases,      // no bug: it speaks for all four, whose products are one
  kReleasedOneTooEarly,  // wait_group<1> is over, and the stage of the youngest group is released
  kReleasedBeforeAnyWait,
};

// A warp-specialised GEMM: a producing warp, a warpgroup that multiplies, one group in flight.
Result gemm(GemmBug bug) {
  constexpr int kStages = 3;
  constexpr int kSteps = 8;
  constexpr uint32_t kBytes = (OperandA::kElements + OperandB::kElements) * 2;
  struct Storage {
    OperandA a[kStages];
    OperandB b[kStages];
    tile::Pipeline<kStages> pipeline;
  };
  test::Buffer<half> a(image_a(kSteps));
  test::Buffer<half> b(image_b(kSteps));
  test::Buffer<float> out(64 * 16);
  launch_with<Storage>({.threads = 160}, [&](Storage& shared) {
    if (thread_index() == 0) {
      shared.pipeline.init(bug == GemmBug::kOneWarpReleases ? 1 : 4);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    tile::PipelinePosition<kStages> at;
    if (warp_index() == 4) {
      if (lane_index() != 0) return;
      for (int step = 0; step < kSteps; ++step, at.advance()) {
        ptx::Mbarrier& full = shared.pipeline.acquire(at, kBytes);
        ptx::bulk_load(shared.a[at.stage].elements.pointer(), a.data() + step * 1024, 2048, full);
        ptx::bulk_load(shared.b[at.stage].elements.pointer(), b.data() + step * 256, 512, full);
      }
      return;
    }
    float d[8] = {};
    const auto release = [&](int stage) {
      if (bug == GemmBug::kOneWarpReleases && warp_index() != 0) return;
      ptx::syncwarp();
      if (lane_index() == 0) shared.pipeline.release(stage);
    };
    int before = 0;
    for (int step = 0; step < kSteps; ++step, at.advance()) {
      if (bug != GemmBug::kOneWarpWaitsForFull || warp_index() == 0) shared.pipeline.wait(at);
      ptx::wgmma_fence(d);
      ptx::wgmma_m64k16<16, half>(d, shared.a[at.stage].descriptor(),
                                  shared.b[at.stage].descriptor(), step > 0);
      ptx::wgmma_commit_group();
      if (bug == GemmBug::kReleasedBeforeAnyWait) release(at.stage);
      ptx::wgmma_wait_group<1>(d);
      if (bug == GemmBug::kReleasedOneTooEarly) release(at.stage);
      if (step > 0 && bug != GemmBug::kReleasedBeforeAnyWait &&
          bug != GemmBug::kReleasedOneTooEarly) {
        release(before);
      }
      before = at.stage;
    }
    ptx::wgmma_wait_group<0>(d);
    store_d(out.data(), d);
  });
  return is_product(out, kSteps);
}
TEST(WgmmaRace, OneWarpWaitsForTheStage) {
  expect_planted(kNotReady, gemm, GemmBug::kOneWarpWaitsForFull);
}
// One warp's wait ends the products of all four, for copies: no bug.
TEST(NoFalseAlarm, OneWarpReleasesTheStage) {
  expect_passes([] { return gemm(GemmBug::kOneWarpReleases); });
}
TEST(WgmmaRace, StageReleasedUnderTheYoungestProduct) {
  expect_planted(kNotReady, gemm, GemmBug::kReleasedOneTooEarly);
}
TEST(WgmmaRace, StageReleasedBeforeAnyWait) {
  expect_planted(kNotReady, gemm, GemmBug::kReleasedBeforeAnyWait);
}

// ---- Registers ---------------------------------------------------------------------------------

enum class RegisterBug {
  kNone,
  kScaledInFlight,       // between the commit and the wait; a NaN times 0.5 stays a NaN
  kAddedInFlight,        // the bias, in one register of one thread
  kClearedInFlight,      // the accumulators of the next tile, one tile too early
  kScaledBehindFence,    // online softmax: wgmma.fence, rescale, product
  kOneWarpScalesBehind,  // ... in a warp alone whose maximum grew
  kNoSecondFence,        // the rescale is followed by no fence at all
  kNeverCommitted,       // the wait has nothing to wait for
  kWaitForTheOther,      // wait_group<1> where the younger of two groups is meant
};

// Two products with a rescale between them, as online softmax does.
Result rescale(RegisterBug bug) {
  using enum RegisterBug;
  test::Buffer<float> out(64 * 16);
  launch_with<Operands>(kWarpgroup, [&](Operands& shared) {
    shared.fill();
    const uint64_t a = shared.a.descriptor();
    const uint64_t b = shared.b.descriptor();
    float d[8] = {};
    float other[8] = {};
    const auto scale = [](float (&all)[8]) {
      for (float& x : all) x *= 0.5F;
    };
    ptx::wgmma_fence(d, other);
    ptx::wgmma_m64k16<16, half>(other, a, b, false);
    ptx::wgmma_commit_group();
    ptx::wgmma_m64k16<16, half>(d, a, b, false);
    if (bug != kNeverCommitted) ptx::wgmma_commit_group();
    if (bug == kScaledInFlight) scale(d);
    if (bug == kAddedInFlight && thread_index() == 77) d[5] += 1.0F;
    if (bug == kClearedInFlight) std::ranges::fill(d, 0.0F);
    if (bug == kWaitForTheOther) {
      ptx::wgmma_wait_group<1>(d, other);
    } else {
      ptx::wgmma_wait_group<0>(d, other);
    }
    const bool behind =
        bug == kScaledBehindFence || (bug == kOneWarpScalesBehind && warp_index() == 2);
    if (!behind && bug != kScaledInFlight) scale(d);
    if (bug != kNoSecondFence) ptx::wgmma_fence(d);
    if (behind) scale(d);
    ptx::wgmma_m64k16<16, half>(d, a, b, true);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>(d);
    for (int i = 0; i < 8; ++i) d[i] += other[i];
    store_d(out.data(), d);
  });
  return is_product(out, 1, 2.5F);
}
TEST(WgmmaRegisters, ScaledInFlight) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kScaledInFlight);
}
TEST(WgmmaRegisters, OneRegisterInFlight) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kAddedInFlight);
}
TEST(WgmmaRegisters, ClearedInFlight) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kClearedInFlight);
}
TEST(WgmmaRegisters, ScaledBehindTheFence) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kScaledBehindFence);
}
TEST(WgmmaRegisters, ScaledBehindTheFenceInOneWarp) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kOneWarpScalesBehind);
}
TEST(WgmmaRegisters, ScaledWithoutASecondFence) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kNoSecondFence);
}
TEST(WgmmaRegisters, NeverCommitted) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kNeverCommitted);
}
TEST(WgmmaRegisters, WaitThatLeavesItInFlight) {
  expect_planted({Fault::kInvalidUse}, rescale, RegisterBug::kWaitForTheOther);
}

enum class FragmentBug {
  kNone,
  kReusedInFlight,     // the next step's fragment before the wait for this one's product
  kOneLaneInFlight,    // ... a single register of a single lane
  kConvertedBehind,    // attention: the probabilities are packed behind the fence that names them
  kKeptInFlightOfTwo,  // two fragments by turns, and a wait that leaves two groups in flight
};

// A from registers, step after step, a fragment for each parity of the step.
Result fragments(FragmentBug bug) {
  struct Storage {
    OperandB b[4];
  };
  using enum FragmentBug;
  constexpr int kSteps = 4;
  test::Buffer<float> out(64 * 16);
  launch_with<Storage>(kWarpgroup, [&](Storage& shared) {
    for (int step = 0; step < kSteps; ++step) fill_b(shared.b[step], step, thread_index(), 128);
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    float d[8] = {};
    uint32_t a[2][4] = {};
    for (int step = 0; step < kSteps; ++step) {
      uint32_t (&mine)[4] = a[bug == kReusedInFlight ? 0 : step % 2];
      if (bug != kConvertedBehind) fragment_a(mine, step);
      ptx::wgmma_fence(d, mine);
      if (bug == kConvertedBehind) fragment_a(mine, step);
      ptx::wgmma_m64k16<16, half>(d, mine, shared.b[step].descriptor(), step > 0);
      ptx::wgmma_commit_group();
      if (bug == kOneLaneInFlight && step == 2 && thread_index() == 45) mine[3] = 0;
      // The next step writes the fragment of the one before this.
      if (bug == kKeptInFlightOfTwo) {
        ptx::wgmma_wait_group<2>(d);
      } else {
        ptx::wgmma_wait_group<1>(d);
      }
    }
    ptx::wgmma_wait_group<0>(d);
    store_d(out.data(), d);
  });
  return is_product(out, kSteps);
}
TEST(WgmmaRegisters, FragmentReusedInFlight) {
  expect_planted({Fault::kInvalidUse}, fragments, FragmentBug::kReusedInFlight);
}
TEST(WgmmaRegisters, FragmentOfOneLaneInFlight) {
  expect_planted({Fault::kInvalidUse}, fragments, FragmentBug::kOneLaneInFlight);
}
TEST(WgmmaRegisters, FragmentPackedBehindTheFence) {
  expect_planted({Fault::kInvalidUse}, fragments, FragmentBug::kConvertedBehind);
}
TEST(WgmmaRegisters, FragmentOfTwoGroupsBefore) {
  expect_planted({Fault::kInvalidUse}, fragments, FragmentBug::kKeptInFlightOfTwo);
}

enum class IssueBug {
  kNone,
  kExitInFlight,     // a tile outside of the matrix: its product is issued and never awaited
  kOneWarpExits,     // ... by the warp alone whose rows are outside
  kThreeWarpsIssue,  // the warp whose rows are outside leaves the product out
  kOneStepMore,      // one warp's loop over K is longer
  kOffsetByWarp,     // each warp's descriptor of A begins at its own rows: the hardware adds that
  kOtherB,           // warps 2 and 3 take another B
};

// Who issues what, and who waits.
Result issue(IssueBug bug) {
  struct Storage {
    OperandA a;
    OperandB b[2];
  };
  using enum IssueBug;
  test::Buffer<float> out(64 * 16);
  launch_with<Storage>(kWarpgroup, [&](Storage& shared) {
    fill_a(shared.a, 0, thread_index(), 128);
    for (OperandB& b : shared.b) fill_b(b, 0, thread_index(), 128);
    ptx::fence_proxy_async();
    ptx::barrier_sync();
    const int warp = warp_index();
    const auto rows = static_cast<uint32_t>(bug == kOffsetByWarp ? warp * 256 : 0);
    const uint64_t a = ptx::wgmma_advance(shared.a.descriptor(), rows);
    const uint64_t b = shared.b[bug == kOtherB && warp >= 2 ? 1 : 0].descriptor();
    float d[8] = {};
    ptx::wgmma_fence(d);
    if (bug == kThreeWarpsIssue && warp == 3) return;
    ptx::wgmma_m64k16<16, half>(d, a, b, false);
    if (bug == kOneStepMore && warp == 1) ptx::wgmma_m64k16<16, half>(d, a, b, true);
    ptx::wgmma_commit_group();
    if (bug == kExitInFlight || (bug == kOneWarpExits && warp == 3)) return;
    ptx::wgmma_wait_group<0>(d);
    store_d(out.data(), d);
  });
  return is_product(out);
}
TEST(WgmmaIssue, ExitInFlight) {
  expect_planted({Fault::kInvalidUse}, issue, IssueBug::kExitInFlight);
}
TEST(WgmmaIssue, OneWarpExitsInFlight) {
  expect_planted({Fault::kInvalidUse, Fault::kDivergence}, issue, IssueBug::kOneWarpExits);
}
TEST(WgmmaIssue, ThreeWarpsOfFour) {
  expect_planted({Fault::kInvalidUse, Fault::kDivergence}, issue, IssueBug::kThreeWarpsIssue);
}
TEST(WgmmaIssue, OneWarpGoesOneStepFurther) {
  expect_planted({Fault::kInvalidUse, Fault::kDivergence}, issue, IssueBug::kOneStepMore);
}
TEST(WgmmaIssue, DescriptorOffsetByWarp) {
  expect_planted({Fault::kInvalidUse, Fault::kDivergence}, issue, IssueBug::kOffsetByWarp);
}
TEST(WgmmaIssue, AnotherBInHalfTheWarps) {
  expect_planted({Fault::kInvalidUse, Fault::kDivergence}, issue, IssueBug::kOtherB);
}

}  // namespace
}  // namespace ws::emulator
