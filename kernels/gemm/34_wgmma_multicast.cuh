// Idea: two blocks of a cluster, one above the other, use the same 256 columns of B. Each loads
//   half of them, into the shared memory of both (multicast).
// From wgmma_persistent: L2 is read for A once and for B half, 32 KB a slice and block, not 48.
//   A stage is empty when the warpgroups of both blocks have let go of it.
// Traffic: M N K (1 / 256 + 1 / 256) elements from L2.
// Limits: as wgmma_tile.
#pragma once

#include "kernels/gemm/33_wgmma_persistent.cuh"

namespace ws::gemm {

struct TwoBlocks : BlockAnSm {
  static constexpr int kCluster = 2;

  static int count(const tile::Raster& raster, int multiprocessors) {
    return BlockAnSm::count(raster, multiprocessors / kCluster) * kCluster;
  }

  // The raster counts tiles of the cluster, 256 x 256.
  template <class F>
  __device__ __forceinline__ static void for_each_tile(const tile::Raster& raster, F&& f) {
    const int clusters = static_cast<int>(grid_blocks()) / kCluster;
    for (int i = static_cast<int>(block_index()) / kCluster; i < raster.count(); i += clusters) {
      const tile::TileIndex at = raster.at(i);
      f(tile::TileIndex{at.m * kCluster + cluster_rank(), at.n});
    }
  }

  template <class StageB>
  __device__ __forceinline__ static typename StageB::Sharing sharing() {
    return {.share = cluster_rank(), .first_rank = 0, .rank_step = 1};
  }

  // An arrival in each block: copies of both land in this stage.
  template <class Pipeline>
  __device__ __forceinline__ static void release(Pipeline& pipeline, int stage) {
    if (thread_index() % 128 < kCluster) pipeline.release(stage, thread_index() % 128);
  }

  // The other block's barriers and memory are in use: it must have begun, and must not be gone.
  __device__ __forceinline__ static void meet() {
    ptx::syncwarp();  // the arrival is one instruction for the warp
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
  __device__ __forceinline__ static void leave() { meet(); }
};

inline constexpr Rung kWgmmaMulticast =
    rung_of<WgmmaRoles<kWgmmaWideShape, TwoBlocks>, kHalves, Gemm>({
        .name = "wgmma_multicast",
        .from = "wgmma_persistent",
        .idea = "clusters of two share B's tile: each loads half of it for both",
        .arch = Arch::kSm90a,
    });

}  // namespace ws::gemm
