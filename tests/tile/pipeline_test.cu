// The stage ring between one filling thread and two groups of users, with bulk copies as data.
#include "warpsmith/tile/pipeline.hpp"

#include "tests/run.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::tile {
namespace {

constexpr int kPieces = 11;  // some rounds of the ring and a part of one
constexpr int kElements = 64;

// Two warps add up all pieces; a third fills the ring.
template <int kStages>
struct SumPieces {
  static constexpr int kThreads = 96;
  static constexpr Arch kArch = Arch::kSm90;
  struct Arguments {
    const float* in;  // [kPieces, kElements]
    float* out;       // [2, 32]: each user lane's sum
  };
  struct SharedStorage {
    SharedArray<float, kStages * kElements, 128> data;
    Pipeline<kStages> pipeline;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    if (thread_index() == 0) {
      shared.pipeline.init(2);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    PipelinePosition<kStages> at;
    if (warp_index() == 2) {
      for (int piece = 0; lane_index() == 0 && piece < kPieces; ++piece) {
        constexpr uint32_t kBytes = kElements * sizeof(float);
        ptx::Mbarrier& full = shared.pipeline.acquire(at, kBytes);
        ptx::bulk_load(shared.data.pointer(at.stage * kElements), g.in + piece * kElements, kBytes,
                       full);
        at.advance();
      }
    } else {
      float sum = 0;
      for (int piece = 0; piece < kPieces; ++piece) {
        shared.pipeline.wait(at);
        for (int i = lane_index(); i < kElements; i += kWarpSize) {
          sum += shared.data[at.stage * kElements + i];
        }
        ptx::syncwarp();
        if (lane_index() == 0) shared.pipeline.release(at.stage);
        at.advance();
      }
      thread::store(g.out + thread_index(), sum);
    }
    ptx::barrier_sync();
  }
};

// The same, but two warps write the pieces into the ring themselves, half of each.
template <int kStages>
struct SumWrittenPieces {
  static constexpr int kThreads = 128;
  static constexpr Arch kArch = Arch::kSm90;
  using Arguments = typename SumPieces<kStages>::Arguments;
  using SharedStorage = typename SumPieces<kStages>::SharedStorage;

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    if (thread_index() == 0) {
      shared.pipeline.init(2, 2);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    PipelinePosition<kStages> at;
    float sum = 0;
    for (int piece = 0; piece < kPieces; ++piece, at.advance()) {
      const int stage = at.stage * kElements;
      if (warp_index() >= 2) {
        const int i = thread_index() - 64;
        shared.pipeline.wait_free(at);
        shared.data[stage + i] = thread::load(g.in + piece * kElements + i);
        ptx::syncwarp();
        if (lane_index() == 0) shared.pipeline.fill(at.stage);
      } else {
        shared.pipeline.wait(at);
        for (int i = lane_index(); i < kElements; i += kWarpSize) sum += shared.data[stage + i];
        ptx::syncwarp();
        if (lane_index() == 0) shared.pipeline.release(at.stage);
      }
    }
    if (warp_index() < 2) thread::store(g.out + thread_index(), sum);
    ptx::barrier_sync();
  }
};

template <class Kernel>
void expect_sums() {
  test::Buffer<float> in(kPieces * kElements);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  test::Buffer<float> out(64);
  test::run<Kernel>({.threads = Kernel::kThreads}, {in.data(), out.data()});
  for (size_t lane = 0; lane < 32; ++lane) {
    float expected = 0;
    for (size_t i = lane; i < in.size(); i += 32) expected += in[i];
    EXPECT_EQ(out[lane], expected) << lane;
    EXPECT_EQ(out[32 + lane], expected) << lane;
  }
}

TEST(Pipeline, HandsEveryPieceToAllUsers) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::in_every_order([] {
    expect_sums<SumPieces<1>>();
    expect_sums<SumPieces<2>>();
    expect_sums<SumPieces<4>>();
    expect_sums<SumPieces<16>>();  // more stages than pieces
  });
}

TEST(Pipeline, TakesPiecesThatSeveralWrite) {
  WS_REQUIRE_ARCH(Arch::kSm90);
  test::in_every_order([] {
    expect_sums<SumWrittenPieces<1>>();
    expect_sums<SumWrittenPieces<3>>();
  });
}

TEST(PipelinePosition, TurnsItsParityEachRound) {
  PipelinePosition<3> at;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(at.stage, i % 3);
    EXPECT_EQ(at.parity, static_cast<uint32_t>(i / 3 % 2));
    at.advance();
  }
}

}  // namespace
}  // namespace ws::tile
