// Idea: a ring of stages. The copies of the next two slices fly while wgmma works on this one.
// From wgmma_tile: nobody waits for memory, and the tensor cores have the next slice's products
//   before they end with this one's. Still a barrier of the block a slice: who asks for the next
//   copy must know that all are done with the stage.
// Traffic: as wgmma_tile; the two blocks of an SM have up to 128 KB in flight.
// Limits: as wgmma_tile.
#pragma once

#include "kernels/gemm/wgmma_parts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::gemm {

template <class T>
struct WgmmaStagesKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;     // a row of 128 bytes: the widest swizzle
  static constexpr int kStages = 3;     // 96 KB, so that two blocks share an SM: an estimate
  static constexpr int kThreads = 256;  // two warpgroups, one above the other, 64 rows each
  static constexpr int kMinBlocks = 2;  // one multiplies while the other starts or stores
  using StageA = tile::OperandStage<T, ptx::Major::kK, kTileM, kTileK, 1>;
  using StageB = tile::OperandStage<T, ptx::Major::kMN, kTileN, kTileK, 1>;
  using Position = tile::PipelinePosition<kStages>;

  using Arguments = WgmmaArguments<T>;
  struct SharedStorage {
    SharedArray<T, kStages * StageA::kElements, 1024> a;
    SharedArray<T, kStages * StageB::kElements, 1024> b;
    ptx::Mbarrier full[kStages];  // a phase for each slice: its bytes have landed
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()));
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    const int warpgroup = warpgroup_index();
    if (thread_index() == 0) {
#pragma unroll
      for (int stage = 0; stage < kStages; ++stage) ptx::mbarrier_init(shared.full[stage], 1);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();

    const auto copy = [&](int slice, int stage) {
      if (thread_index() == 0 && slice < g.slices) {
        ptx::Mbarrier& full = shared.full[stage];
        ptx::mbarrier_arrive_expect_tx(full, (StageA::kElements + StageB::kElements) * 2);
        StageA::load(shared.a.pointer(stage * StageA::kElements), g.a, full, row, slice * kTileK,
                     {});
        StageB::load(shared.b.pointer(stage * StageB::kElements), g.b, full, column, slice * kTileK,
                     {});
      }
      ptx::syncwarp();
    };
    for (int stage = 0; stage < kStages - 1; ++stage) copy(stage, stage);

    float sums[kTileN / 2];  // of 64 x 128, a thread's share
    Position at;
    for (int slice = 0; slice < g.slices; ++slice) {
      const uint64_t a = StageA::descriptor(shared.a.pointer(at.stage * StageA::kElements));
      const uint64_t b = StageB::descriptor(shared.b.pointer(at.stage * StageB::kElements));
      ptx::mbarrier_wait_parity(shared.full[at.stage], at.parity);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTileK; k += 16) {
        // The very first product overwrites: nobody zeroes the sums.
        ptx::wgmma_m64k16<kTileN, T, ptx::Major::kK, ptx::Major::kMN>(
            sums, StageA::advance(a, warpgroup, k), StageB::advance(b, 0, k), slice > 0 || k > 0);
      }
      ptx::wgmma_commit_group();
      // These products stay in flight; those of the last slice are done, in both warpgroups: its
      // stage is free.
      ptx::wgmma_wait_group<1>();
      ptx::barrier_sync();
      copy(slice + kStages - 1, at.stage == 0 ? kStages - 1 : at.stage - 1);
      at.advance();
    }
    ptx::wgmma_wait_group<0>(sums);
    g.c.store(sums, row + warpgroup * 64, column);
  }

  static void run(const Call& call, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM, kTileN);
    launch<WgmmaStagesKernel>({.blocks = raster.count(), .threads = kThreads}, stream,
                              wgmma_arguments<WgmmaStagesKernel, T>(call, raster));
  }
};

struct WgmmaStages {
  static bool supports(const Call& call, Why& why) { return is_copied_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { WgmmaStagesKernel<T>::run(call, context.stream); });
  }
};

inline constexpr Rung kWgmmaStages = rung_of<WgmmaStages, kHalves, Gemm>({
    .name = "wgmma_stages",
    .from = "wgmma_tile",
    .idea = "a ring of three stages: the next slices are copied under this one's products",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
