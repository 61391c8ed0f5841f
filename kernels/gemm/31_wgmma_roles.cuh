// Idea: warps with roles. One thread of a warp of its own asks for copies, two warpgroups only
//   multiply; two mbarriers a stage, full and empty, lie between them.
// From wgmma_stages: no barrier of the block. A warpgroup waits for data alone, never for the
//   other, and copies run ahead as far as stages are free, whatever the others do.
// Traffic: as wgmma_tile; all stages are in flight or in use.
// Limits: as wgmma_tile.
#pragma once

#include "kernels/gemm/wgmma_parts.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/operand_stage.hpp"
#include "warpsmith/tile/pipeline.hpp"

namespace ws::gemm {

// What can be chosen: the width of a block's tile, stages, blocks that share an SM.
struct WgmmaRolesShape {
  int tile_n;
  int stages;
  int blocks;
};

// Long: the two roles and their protocol on one page, and below them what the rungs above change.
// Shared with those, which have other shapes and other Blocks: which tiles a block computes, and
// with whom.
template <class T, WgmmaRolesShape kShape, class Blocks>
struct WgmmaRolesKernel {
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = 64;  // a row of 128 bytes: the widest swizzle
  static constexpr int kStages = kShape.stages;
  static constexpr int kConsumers = 2;  // warpgroups, one above the other, 64 rows each
  static constexpr int kThreads = kConsumers * 128 + kWarpSize;
  static constexpr int kMinBlocks = kShape.blocks;
  using StageA = tile::OperandStage<T, ptx::Major::kK, kTileM, kTileK, 1>;
  using StageB = tile::OperandStage<T, ptx::Major::kMN, kTileN, kTileK, Blocks::kCluster>;
  using Pipeline = tile::Pipeline<kStages>;

  using Arguments = WgmmaArguments<T>;
  struct SharedStorage {
    SharedArray<T, kStages * StageA::kElements, 1024> a;
    SharedArray<T, kStages * StageB::kElements, 1024> b;
    Pipeline pipeline;
  };

  // One thread: fills stages as they come free.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& g) {
    typename Pipeline::Position at;
    Blocks::for_each_tile(g.raster, [&](tile::TileIndex tile) {
      for (int slice = 0; slice < g.slices; ++slice) {
        ptx::Mbarrier& full =
            shared.pipeline.acquire(at, (StageA::kElements + StageB::kElements) * 2);
        StageA::load(shared.a.pointer(at.stage * StageA::kElements), g.a, full, tile.m * kTileM,
                     slice * kTileK, {});
        StageB::load(shared.b.pointer(at.stage * StageB::kElements), g.b, full, tile.n * kTileN,
                     slice * kTileK, Blocks::template sharing<StageB>());
        at.advance();
      }
    });
  }

  // A warpgroup: multiplies its 64 rows of every stage, and lets go of it.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int consumer) {
    typename Pipeline::Position at;
    float sums[kTileN / 2];
    Blocks::for_each_tile(g.raster, [&](tile::TileIndex tile) {
      int previous = 0;
      for (int slice = 0; slice < g.slices; ++slice) {
        const uint64_t a = StageA::descriptor(shared.a.pointer(at.stage * StageA::kElements));
        const uint64_t b = StageB::descriptor(shared.b.pointer(at.stage * StageB::kElements));
        shared.pipeline.wait(at);
        ptx::wgmma_fence();
#pragma unroll
        for (int k = 0; k < kTileK; k += 16) {
          // The first product of a tile overwrites: nobody zeroes the sums.
          ptx::wgmma_m64k16<kTileN, T, ptx::Major::kK, ptx::Major::kMN>(
              sums, StageA::advance(a, consumer, k), StageB::advance(b, 0, k), slice > 0 || k > 0);
        }
        ptx::wgmma_commit_group();
        // These products stay in flight; those of the last slice are done, and its stage is free.
        ptx::wgmma_wait_group<1>();
        if (slice > 0) Blocks::release(shared.pipeline, previous);
        previous = at.stage;
        at.advance();
      }
      ptx::wgmma_wait_group<0>(sums);
      Blocks::release(shared.pipeline, previous);
      g.c.store(sums, tile.m * kTileM + consumer * 64, tile.n * kTileN);
    });
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const int warpgroup = warpgroup_index();
    if (thread_index() == 0) {
      // A stage is empty after one arrival of each warpgroup that uses it.
      shared.pipeline.init(kConsumers * Blocks::kCluster);
      ptx::fence_mbarrier_init();
    }
    Blocks::meet();
    if (warpgroup < kConsumers) {
      consume(shared, g, warpgroup);
    } else {
      if (ptx::elect_sync()) produce(shared, g);
      ptx::syncwarp();
    }
    Blocks::leave();
  }

  static void run(const Call& call, int multiprocessors, Stream stream) {
    const tile::Raster raster = raster_of(call, kTileM * Blocks::kCluster, kTileN);
    launch<WgmmaRolesKernel>({.blocks = Blocks::count(raster, multiprocessors),
                              .threads = kThreads,
                              .cluster = Blocks::kCluster},
                             stream, wgmma_arguments<WgmmaRolesKernel, T>(call, raster));
  }
};

// A block for each tile, and each for itself.
struct BlockATile {
  static constexpr int kCluster = 1;  // blocks, one above the other, with the same tiles of B

  static int count(const tile::Raster& raster, int /*multiprocessors*/) { return raster.count(); }

  template <class F>
  __device__ __forceinline__ static void for_each_tile(const tile::Raster& raster, F&& f) {
    f(raster.at(static_cast<int>(block_index())));
  }

  // The part of B's tile that this block loads, and for whom.
  template <class StageB>
  __device__ __forceinline__ static typename StageB::Sharing sharing() {
    return {};
  }

  // By all threads of a warpgroup: one arrival.
  template <class Pipeline>
  __device__ __forceinline__ static void release(Pipeline& pipeline, int stage) {
    if (thread_index() % 128 == 0) pipeline.release(stage);
  }

  // Before the first use of the barriers, after the last.
  __device__ __forceinline__ static void meet() { ptx::barrier_sync(); }
  __device__ __forceinline__ static void leave() {}
};

template <WgmmaRolesShape kShape, class Blocks>
struct WgmmaRoles {
  static bool supports(const Call& call, Why& why) { return is_copied_nn(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      WgmmaRolesKernel<T, kShape, Blocks>::run(call, device_facts().multiprocessors,
                                               context.stream);
    });
  }
};

// 96 KB, so that two blocks share an SM, as in wgmma_stages.
inline constexpr WgmmaRolesShape kWgmmaSquare = {.tile_n = 128, .stages = 3, .blocks = 2};

inline constexpr Rung kWgmmaRoles = rung_of<WgmmaRoles<kWgmmaSquare, BlockATile>, kHalves, Gemm>({
    .name = "wgmma_roles",
    .from = "wgmma_stages",
    .idea = "a warp copies, two warpgroups multiply; full and empty mbarriers between them",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
