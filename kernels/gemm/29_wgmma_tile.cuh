// Idea: operands never pass registers. The copy engine (TMA) brings a slice of A and of B to shared
//   memory, and wgmma, an instruction of four warps, multiplies what lies there.
// From mma_pipeline: no thread computes an address, loads a fragment or checks an edge; nearly
//   all that it issues is products. For now a block copies, waits, multiplies, waits.
// Traffic: M N K (1 / 128 + 1 / 128) elements from L2, each operand from memory about once.
// Limits: sm_90a; f16 and bf16, layout nn, rows of A and B start at multiples of 16 bytes, the copy
//   engine's rule; K > 0.
#pragma once

#include "kernels/gemm/wgmma_parts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"

namespace ws::gemm {

template <class T>
struct WgmmaTileKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;     // a row of 128 bytes: the widest swizzle
  static constexpr int kThreads = 256;  // two warpgroups, one above the other, 64 rows each
  static constexpr int kMinBlocks = 2;  // one multiplies while the other waits
  using StageA = tile::OperandStage<T, ptx::Major::kK, kTileM, kTileK, 1>;
  using StageB = tile::OperandStage<T, ptx::Major::kMN, kTileN, kTileK, 1>;

  using Arguments = WgmmaArguments<T>;
  struct SharedStorage {
    SharedArray<T, StageA::kElements, 1024> a;
    SharedArray<T, StageB::kElements, 1024> b;
    ptx::Mbarrier full;  // a phase for each slice: its bytes have landed
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()));
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    const int warpgroup = warpgroup_index();
    if (thread_index() == 0) {
      ptx::mbarrier_init(shared.full, 1);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();

    const uint64_t a = StageA::descriptor(shared.a.pointer());
    const uint64_t b = StageB::descriptor(shared.b.pointer());
    float sums[kTileN / 2];  // of 64 x 128, a thread's share
    uint32_t parity = 0;
    for (int slice = 0; slice < g.slices; ++slice) {
      if (thread_index() == 0) {
        ptx::mbarrier_arrive_expect_tx(shared.full, sizeof(shared.a) + sizeof(shared.b));
        StageA::load(shared.a.pointer(), g.a, shared.full, row, slice * kTileK, {});
        StageB::load(shared.b.pointer(), g.b, shared.full, column, slice * kTileK, {});
      }
      ptx::syncwarp();
      ptx::mbarrier_wait_parity(shared.full, parity);
      parity ^= 1;
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTileK; k += 16) {
        // The very first product overwrites: nobody zeroes the sums.
        ptx::wgmma_m64k16<kTileN, T, ptx::Major::kK, ptx::Major::kMN>(
            sums, StageA::advance(a, warpgroup, k), StageB::advance(b, 0, k), slice > 0 || k > 0);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<0>(sums);
      ptx::barrier_sync();  // both warpgroups are done with the slice
    }
    g.c.store(sums, row + warpgroup * 64, column);
  }

  static void run(const Call& call, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM, kTileN);
    launch<WgmmaTileKernel>({.blocks = raster.count(), .threads = kThreads}, stream,
                            wgmma_arguments<WgmmaTileKernel, T>(call, raster));
  }
};

struct WgmmaTile {
  static bool supports(const Call& call, Why& why) { return is_copied_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { WgmmaTileKernel<T>::run(call, context.stream); });
  }
};

inline constexpr Rung kWgmmaTile = rung_of<WgmmaTile, kHalves, Gemm>({
    .name = "wgmma_tile",
    .from = "mma_pipeline",
    .idea = "TMA copies whole tiles, wgmma multiplies them where they lie: copy, wait, multiply",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
