// Idea: C leaves asynchronously. A warp puts its rows into shared memory (stmatrix), the copy
//   engine writes them, and the warp goes on to the next tile.
// From wgmma_multicast: no tensor core waits for stores, and C is written in whole sectors. All
//   layouts are one kernel, which has a tile for every size; the warp that copies becomes a
//   warpgroup, so that its registers can go to those that multiply (setmaxnreg).
// Traffic: per 128 x 256 x 64 step a block reads 32 KB from L2 (48 KB without the cluster).
// Limits: sm_90a; base addresses and row strides are multiples of 16 bytes, the copy engine's rule.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/policies.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/tile/operand_stage.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws::gemm {

// Long: the two roles and their protocol belong on one page, beside the storage they share.
template <class T, Contiguous kA, Contiguous kB, class Policy>
struct WarpSpecializedKernel : Policy {
  static constexpr int kMinBlocks = 1;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = Policy::kTileM;
  static constexpr int kTileN = Policy::kTileN;
  static constexpr int kTileK = Policy::kTileK;
  static constexpr int kStages = Policy::kStages;
  static constexpr int kRowBlocks = Policy::kRowBlocks;
  static constexpr ptx::Major kMajorA =
      kA == Contiguous::kColumns ? ptx::Major::kK : ptx::Major::kMN;
  static constexpr ptx::Major kMajorB = kB == Contiguous::kRows ? ptx::Major::kK : ptx::Major::kMN;
  using StageA = tile::OperandStage<T, kMajorA, kTileM, kTileK, Policy::kClusterN>;
  using StageB = tile::OperandStage<T, kMajorB, kTileN, kTileK, Policy::kClusterM>;
  using Position = tile::PipelinePosition<kStages>;
  using Store = tile::WarpStore<T, Policy::kStoreBuffers>;

  struct Arguments {
    ptx::TensorMap a;
    ptx::TensorMap b;
    ptx::TensorMap c;
    tile::Raster raster;  // in tiles of a cluster
    int blocks_of_k;
  };
  struct SharedStorage {
    SharedArray<T, kStages * StageA::kElements, 1024> a;
    SharedArray<T, kStages * StageB::kElements, 1024> b;
    SharedArray<T, Policy::kConsumers * 4 * Store::kElements, 1024> c;
    tile::Pipeline<kStages> pipeline;
  };
  static_assert(sizeof(SharedStorage) <= Policy::kSharedBytes);

  // Walks the tiles of this block: f(first row, first column).
  template <class F>
  __device__ __forceinline__ static void for_each_tile(const Arguments& g, F&& f) {
    const int rank = cluster_rank();
    const auto clusters = static_cast<int>(grid_blocks()) / Policy::kCluster;
    for (int i = static_cast<int>(block_index()) / Policy::kCluster; i < g.raster.count();
         i += clusters) {
      const tile::TileIndex at = g.raster.at(i);
      f((at.m * Policy::kClusterM + rank % Policy::kClusterM) * kTileM,
        (at.n * Policy::kClusterN + rank / Policy::kClusterM) * kTileN);
    }
  }

  // One thread: fills stages for all tiles, its share of those that the cluster shares.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& g) {
    const int rank_m = cluster_rank() % Policy::kClusterM;
    const int rank_n = cluster_rank() / Policy::kClusterM;
    Position at;
    for_each_tile(g, [&](int row, int column) {
      for (int block = 0; block < g.blocks_of_k; ++block) {
        ptx::Mbarrier& full = shared.pipeline.acquire(at, Policy::kStageBytes);
        StageA::load(shared.a.pointer(at.stage * StageA::kElements), g.a, full, row, block * kTileK,
                     {.share = rank_n, .first_rank = rank_m, .rank_step = Policy::kClusterM});
        StageB::load(shared.b.pointer(at.stage * StageB::kElements), g.b, full, column,
                     block * kTileK,
                     {.share = rank_m, .first_rank = rank_n * Policy::kClusterM, .rank_step = 1});
        at.advance();
      }
    });
  }

  // A stage goes back to every block whose copies land in it: one arrival from each warpgroup.
  __device__ __forceinline__ static void release(SharedStorage& shared, int stage) {
    if constexpr (Policy::kCluster == 1) {
      if (thread_index() % 128 == 0) shared.pipeline.release(stage);
    } else if (thread_index() % 128 < Policy::kCluster) {
      shared.pipeline.release(stage, thread_index() % 128);
    }
  }

  // A warpgroup: multiplies its rows of every tile and stores them. `warp` counts the consumers'
  // warps.
  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    float sum[kRowBlocks][kTileN / 2] = {};
    for_each_tile(g, [&](int row, int column) {
      int previous = 0;
      for (int block = 0; block < g.blocks_of_k; ++block) {
        const uint64_t a = StageA::descriptor(shared.a.pointer(at.stage * StageA::kElements));
        const uint64_t b = StageB::descriptor(shared.b.pointer(at.stage * StageB::kElements));
        shared.pipeline.wait(at);
        ptx::wgmma_fence();
#pragma unroll
        for (int k = 0; k < kTileK; k += 16) {
#pragma unroll
          for (int i = 0; i < kRowBlocks; ++i) {
            // The first product overwrites what the last tile left.
            ptx::wgmma_m64k16<kTileN, T, kMajorA, kMajorB>(
                sum[i], StageA::advance(a, consumer * kRowBlocks + i, k), StageB::advance(b, 0, k),
                block > 0 || k > 0);
          }
        }
        ptx::wgmma_commit_group();
        // These products stay in flight; those before them are done with their stage.
        ptx::wgmma_wait_group<1>();
        if (block > 0) release(shared, previous);
        previous = at.stage;
        at.advance();
      }
      if constexpr (kRowBlocks == 1) {
        ptx::wgmma_wait_group<0>(sum[0]);
      } else {
        ptx::wgmma_wait_group<0>(sum[0], sum[1]);
      }
      release(shared, previous);
#pragma unroll
      for (int i = 0; i < kRowBlocks; ++i) {
#pragma unroll
        for (int j = 0; j < kTileN; j += 64) {
          store.put(g.c, row + (consumer * kRowBlocks + i) * 64 + warp % 4 * 16, column + j,
                    &sum[i][j / 2]);
        }
      }
    });
    store.finish();
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    // Broadcast, so that the compiler knows it to be the same in all lanes.
    const auto warp =
        static_cast<int>(ptx::shfl_sync_idx(kFullMask, static_cast<uint32_t>(warp_index()), 0));
    if (thread_index() == 0) {
      ptx::prefetch_tensor_map(g.a);
      ptx::prefetch_tensor_map(g.b);
      ptx::prefetch_tensor_map(g.c);
      shared.pipeline.init(Policy::kConsumers * Policy::kCluster);
      ptx::fence_mbarrier_init();
    }
    meet();
    if (warp < 4) {
      ptx::setmaxnreg_dec<Policy::kProducerRegisters>();
      if (warp == 0) {
        if (ptx::elect_sync()) produce(shared, g);
        ptx::syncwarp();
      }
    } else {
      ptx::setmaxnreg_inc<Policy::kConsumerRegisters>();
      consume(shared, g, warp - 4);
    }
    meet();  // others may still copy into this block's memory, or arrive at its barriers
  }

  __device__ __forceinline__ static void meet() {
    if constexpr (Policy::kCluster > 1) {
      ptx::syncwarp();  // the arrival is one instruction for the warp
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    } else {
      ptx::barrier_sync();
    }
  }

  // On at most `max_blocks` blocks, which must be resident together.
  static void run(const Call& call, int max_blocks, Stream stream) {
    const tile::Raster raster = Policy::raster(call);
    const int clusters = std::min(raster.count(), max_blocks / Policy::kCluster);
    launch<WarpSpecializedKernel>(
        {.blocks = clusters * Policy::kCluster,
         .threads = Policy::kThreads,
         .cluster = Policy::kCluster},
        stream,
        {.a = StageA::tensor_map(call.a.as<const T>(), call.m, call.k, call.a.leading),
         .b = StageB::tensor_map(call.b.as<const T>(), call.n, call.k, call.b.leading),
         .c = Store::tensor_map(call.c.as<const T>(), call.m, call.n, call.c.leading),
         .raster = raster,
         .blocks_of_k = static_cast<int>(divide_up(call.k, kTileK))});
  }
};

struct WarpSpecialized {
  static bool supports(const Call& call, Why& why) {
    if (!why.unless(call.k > 0, "K = 0 leaves nothing to copy") || !runs_supported(call, why)) {
      return false;
    }
    for (const auto& [name, matrix] : matrices_of(call)) {
      if (!can_be_copied(name, matrix, call.dtype, why)) return false;
    }
    // The copy engine cuts what it stores at multiples of 16 bytes, not at the tensor's edge.
    return why.unless(call.c.length * 2 % 16 == 0, "rows of c are ", call.c.length * 2,
                      " bytes long, the copy engine stores multiples of 16");
  }

  static void run(const Call& call, const Context& context) {
    const int blocks = device_facts().multiprocessors;
    with_types<kHalves>(call, [&]<class T, Contiguous kA, Contiguous kB>() {
      switch (choose_wgmma(call, blocks)) {
        case WgmmaChoice::kBig:
          return WarpSpecializedKernel<T, kA, kB, WgmmaBig>::run(call, blocks, context.stream);
        case WgmmaChoice::kMiddle:
          return WarpSpecializedKernel<T, kA, kB, WgmmaMiddle>::run(call, blocks, context.stream);
        case WgmmaChoice::kSmall:
          return WarpSpecializedKernel<T, kA, kB, WgmmaSmall>::run(call, blocks, context.stream);
      }
    });
  }
};

inline constexpr Rung kWarpSpecialized = rung_of<WarpSpecialized, kHalves, Gemm>({
    .name = "warp_specialized",
    .from = "wgmma_multicast",
    .idea = "stmatrix, and the copy engine stores C under the next tile; every layout and size",
    .arch = Arch::kSm90a,
});

}  // namespace ws::gemm
