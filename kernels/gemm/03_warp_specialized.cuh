// Idea: warpgroups with roles. One thread keeps the copy engine busy (TMA), two warpgroups keep the
//   tensor cores busy (wgmma), and a ring of shared-memory stages with mbarriers lies between them.
// From mma_pipeline: operands go from shared memory straight into the tensor cores, without
// ldmatrix,
//   registers or issue slots; a product is 64 x 256 x 16. Two blocks of a cluster share their
//   columns of B (multicast), so L2 is read less. Blocks are persistent: the next tile's copies fly
//   under this tile's epilogue, and C leaves asynchronously through shared memory.
// Traffic: per 128 x 256 x 64 step a block reads 32 KB from L2 (48 KB without the cluster).
// Limits: sm_90a; base addresses and row strides are multiples of 16 bytes, as the copy engine
// asks.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "kernels/gemm/problem.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/setmaxnreg.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/wgmma.hpp"
#include "warpsmith/tile/operand_stage.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/tile/raster.hpp"
#include "warpsmith/tile/warp_store.hpp"

namespace ws::gemm {

// What can be chosen. A cluster is cluster_m blocks down, which share B's tile, by cluster_n
// across, which share A's.
struct WgmmaShape {
  int tile_m;
  int tile_n;
  int stages;
  int cluster_m = 1;
  int cluster_n = 1;
  int store_buffers = 2;  // of 16 x 64 elements of C, of a warp
  int band = 2048;        // rows of C that running tiles should cover
};

template <WgmmaShape kShape>
struct WgmmaConfig {
  static constexpr int kTileM = kShape.tile_m;
  static constexpr int kTileN = kShape.tile_n;
  static constexpr int kTileK = 64;  // one 128-byte swizzle row of 16-bit elements
  static constexpr int kStages = kShape.stages;
  static constexpr int kClusterM = kShape.cluster_m;
  static constexpr int kClusterN = kShape.cluster_n;
  static constexpr int kCluster = kClusterM * kClusterN;
  static constexpr int kConsumers = 2;  // warpgroups
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kRowBlocks = kTileM / 64 / kConsumers;  // of 64 rows, of a consumer
  static constexpr int kStageBytes = (kTileM + kTileN) * kTileK * 2;
  static constexpr int kStoreBuffers = kShape.store_buffers;
  static constexpr int kStoreBytes = kConsumers * 4 * kStoreBuffers * 16 * 64 * 2;
  static constexpr int kSharedBytes = kStages * kStageBytes + kStoreBytes + 1024;
  static constexpr int kBand = std::max(1, kShape.band / (kTileM * kClusterM));  // in clusters
  // At entry a thread has 65536 / 384, rounded down to 168; what the producer gives back, the
  // consumers take.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;

  static_assert(kTileM % (64 * kConsumers) == 0, "a consumer computes whole blocks of 64 rows");
  static_assert(kTileN % 64 == 0 && kTileN <= 256, "wgmma's widest; C is stored by 64 columns");
  static_assert(kRowBlocks * kTileN / 2 <= 128, "accumulators that a thread can hold");
  static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <= 3 * 168);
  static_assert(kSharedBytes <= 227 * 1024, "shared memory of a block");
};

template <class T, Contiguous kA, Contiguous kB, class Config>
struct WarpSpecialized : Config {
  static constexpr int kMinBlocks = 1;
  static constexpr Arch kArch = Arch::kSm90a;
  static constexpr int kTileM = Config::kTileM;
  static constexpr int kTileN = Config::kTileN;
  static constexpr int kTileK = Config::kTileK;
  static constexpr int kStages = Config::kStages;
  static constexpr int kRowBlocks = Config::kRowBlocks;
  static constexpr ptx::Major kMajorA =
      kA == Contiguous::kColumns ? ptx::Major::kK : ptx::Major::kMN;
  static constexpr ptx::Major kMajorB = kB == Contiguous::kRows ? ptx::Major::kK : ptx::Major::kMN;
  using StageA = tile::OperandStage<T, kMajorA, kTileM, kTileK, Config::kClusterN>;
  using StageB = tile::OperandStage<T, kMajorB, kTileN, kTileK, Config::kClusterM>;
  using Position = tile::PipelinePosition<kStages>;
  using Store = tile::WarpStore<T, Config::kStoreBuffers>;

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
    SharedArray<T, Config::kConsumers * 4 * Store::kElements, 1024> c;
    tile::Pipeline<kStages> pipeline;
  };
  static_assert(sizeof(SharedStorage) <= Config::kSharedBytes);

  // Walks the tiles of this block: f(first row, first column).
  template <class F>
  __device__ __forceinline__ static void for_each_tile(const Arguments& g, F&& f) {
    const int rank = cluster_rank();
    const auto clusters = static_cast<int>(grid_blocks()) / Config::kCluster;
    for (int i = static_cast<int>(block_index()) / Config::kCluster; i < g.raster.count();
         i += clusters) {
      const tile::TileIndex at = g.raster.at(i);
      f((at.m * Config::kClusterM + rank % Config::kClusterM) * kTileM,
        (at.n * Config::kClusterN + rank / Config::kClusterM) * kTileN);
    }
  }

  // One thread: fills stages for all tiles, its share of those that the cluster shares.
  __device__ __forceinline__ static void produce(SharedStorage& shared, const Arguments& g) {
    const int rank_m = cluster_rank() % Config::kClusterM;
    const int rank_n = cluster_rank() / Config::kClusterM;
    Position at;
    for_each_tile(g, [&](int row, int column) {
      for (int block = 0; block < g.blocks_of_k; ++block) {
        ptx::Mbarrier& full = shared.pipeline.acquire(at, Config::kStageBytes);
        StageA::load(shared.a.pointer(at.stage * StageA::kElements), g.a, full, row, block * kTileK,
                     {.share = rank_n, .first_rank = rank_m, .rank_step = Config::kClusterM});
        StageB::load(shared.b.pointer(at.stage * StageB::kElements), g.b, full, column,
                     block * kTileK,
                     {.share = rank_m, .first_rank = rank_n * Config::kClusterM, .rank_step = 1});
        at.advance();
      }
    });
  }

  // A stage goes back to every block whose copies land in it: one arrival from each warpgroup.
  __device__ __forceinline__ static void release(SharedStorage& shared, int stage) {
    if constexpr (Config::kCluster == 1) {
      if (thread_index() % 128 == 0) shared.pipeline.release(stage);
    } else if (thread_index() % 128 < Config::kCluster) {
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
      shared.pipeline.init(Config::kConsumers * Config::kCluster);
      ptx::fence_mbarrier_init();
    }
    meet();
    if (warp < 4) {
      ptx::setmaxnreg_dec<Config::kProducerRegisters>();
      if (warp == 0) {
        if (ptx::elect_sync()) produce(shared, g);
        ptx::syncwarp();
      }
    } else {
      ptx::setmaxnreg_inc<Config::kConsumerRegisters>();
      consume(shared, g, warp - 4);
    }
    meet();  // others may still copy into this block's memory, or arrive at its barriers
  }

  __device__ __forceinline__ static void meet() {
    if constexpr (Config::kCluster > 1) {
      ptx::syncwarp();  // the arrival is one instruction for the warp
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    } else {
      ptx::barrier_sync();
    }
  }

  static tile::Raster raster_of(const Call& call) {
    constexpr int kRows = kTileM * Config::kClusterM;
    constexpr int kColumns = kTileN * Config::kClusterN;
    return {.tiles_m = static_cast<int>((call.m + kRows - 1) / kRows),
            .tiles_n = static_cast<int>((call.n + kColumns - 1) / kColumns),
            .group = Config::kBand};
  }

  // On at most `max_blocks` blocks, which must be resident together.
  static void run(const Call& call, int max_blocks, Stream stream) {
    const auto [a, b, c] = storages_of(call);
    const tile::Raster raster = raster_of(call);
    const int clusters = std::min(raster.count(), max_blocks / Config::kCluster);
    launch<WarpSpecialized>(
        {.blocks = clusters * Config::kCluster,
         .threads = Config::kThreads,
         .cluster = Config::kCluster},
        stream,
        {.a = StageA::tensor_map(static_cast<const T*>(a.data), call.m, call.k, a.storage.leading),
         .b = StageB::tensor_map(static_cast<const T*>(b.data), call.n, call.k, b.storage.leading),
         .c = Store::tensor_map(static_cast<const T*>(c.data), call.m, call.n, c.storage.leading),
         .raster = raster,
         .blocks_of_k = static_cast<int>((call.k + kTileK - 1) / kTileK)});
  }
};

// The tile for every call: big tiles move least, small ones leave no SM idle.
using WgmmaBig = WgmmaConfig<WgmmaShape{.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2}>;
using WgmmaMiddle =
    WgmmaConfig<WgmmaShape{.tile_m = 128, .tile_n = 128, .stages = 6, .cluster_m = 2}>;
using WgmmaSmall = WgmmaConfig<WgmmaShape{.tile_m = 128, .tile_n = 64, .stages = 8}>;

// Time of a call in units of a product per SM, from the waves of tiles that it takes. `efficiency`
// is the share of the big tile's rate that the configuration reaches when all SMs are busy.
template <class Config>
double estimated_time(const Call& call, int multiprocessors, double efficiency) {
  constexpr int64_t kRows = Config::kTileM * Config::kClusterM;
  constexpr int64_t kColumns = Config::kTileN * Config::kClusterN;
  const int64_t clusters = ((call.m + kRows - 1) / kRows) * ((call.n + kColumns - 1) / kColumns);
  const int64_t resident = std::max(1, multiprocessors / Config::kCluster);
  const int64_t waves = (clusters + resident - 1) / resident;
  return static_cast<double>(waves * Config::kTileM * Config::kTileN) / efficiency;
}

inline Reason warp_specialized_supports(const Problem& problem) {
  const Call call = call_of(problem);
  if (call.k == 0) return "K = 0 leaves nothing to copy";
  if (Reason reason = runs_supported(call); !reason.empty()) return reason;
  for (const NamedStorage& matrix : storages_of(call)) {
    const int alignment = alignment_of(matrix.data, matrix.storage.leading, call.dtype);
    if (alignment < 16) {
      return concatenate("rows of ", matrix.name, " start at multiples of ", alignment,
                         " bytes, the copy engine needs 16");
    }
    if (matrix.runs > 1 && matrix.storage.leading < matrix.length) {
      return concatenate("rows of ", matrix.name, " overlap");
    }
  }
  return {};
}

inline void run_warp_specialized(const Problem& problem, const Context& context) {
  const Call call = call_of(problem);
  const auto [a, b, c] = storages_of(call);
  const int multiprocessors = device_facts().multiprocessors;
  const double big = estimated_time<WgmmaBig>(call, multiprocessors, 1.0);
  const double middle = estimated_time<WgmmaMiddle>(call, multiprocessors, 0.85);
  const double small = estimated_time<WgmmaSmall>(call, multiprocessors, 0.6);
  with_types(call.dtype, a.storage.contiguous, b.storage.contiguous,
             [&]<class T, Contiguous kA, Contiguous kB>() {
               if (big <= middle && big <= small) {
                 WarpSpecialized<T, kA, kB, WgmmaBig>::run(call, multiprocessors, context.stream);
               } else if (middle <= small) {
                 WarpSpecialized<T, kA, kB, WgmmaMiddle>::run(call, multiprocessors,
                                                              context.stream);
               } else {
                 WarpSpecialized<T, kA, kB, WgmmaSmall>::run(call, multiprocessors, context.stream);
               }
             });
}

}  // namespace ws::gemm
