// Idea: K is divided among clusters whose blocks share what they load. The clusters of a tile leave
//   for each other, in L2, the sums of the columns that the other stores; each adds its columns, in
//   one order.
// From split_k: there the cluster itself divides K, so its blocks have nothing to share, and only
//   fifteen clusters of eight find a place. Here half of B comes from the neighbour.
// Traffic: of the sums 8 bytes an element and part, to L2 and back, all at one time.
// Limits: as warp_specialized; as many blocks as the GPU has SMs; a workspace for the sums.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "warpsmith/ptx/flag.hpp"

namespace ws::gemm {

// A cluster has one part of one tile. flags[] is zero before and after.
struct PartsOfK {
  static constexpr bool kCooperative = true;
  int steps = 0;  // slices of K
  int tiles = 0;
  int parts = 1;
  float* sums = nullptr;
  uint32_t* flags = nullptr;

  template <class F>
  __device__ __forceinline__ void for_each(int worker, int /*workers*/, F&& f) const {
    const int part = part_of(worker);
    f(tile::Part{place_of(worker) - part * tiles, steps * part / parts,
                 steps * (part + 1) / parts});
  }
  __device__ __forceinline__ int part_of(int worker) const { return place_of(worker) / tiles; }

 private:
  // Tiles of a part stand side by side in a line, part by part. Clusters begin on an H200's eight
  // GPCs in turns, and what SMs of one GPC read at one time may reach L2 as one read: so each GPC
  // gets neighbours. (H200 2026-12-01, against clusters in the order of the line: 512 x 512 x 16384
  // 21.3 us of 22.5, 1024 x 1024 x 8192 30.0 of 31.2, 512 x 512 x 4096 11.1 of 11.8.)
  __device__ __forceinline__ int place_of(int worker) const {
    constexpr int kGpcs = 8;
    const int all = tiles * parts;
    const int gpc = worker % kGpcs;
    return gpc * (all / kGpcs) + std::min(gpc, all % kGpcs) + worker / kGpcs;
  }
};

// C as it is stored by the columns of a part.
template <class T, int kColumns>
struct PartOutput {
  using Element = T;
  ptx::TensorMap map;

  template <class Store>
  static PartOutput of(const Call& call) {
    return {
        Store::template tensor_map<kColumns>(call.c.as<const T>(), call.m, call.n, call.c.leading)};
  }
  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
};

template <class T, Contiguous kA, Contiguous kB, class Policy, int kParts>
using SplitClustersBase =
    WarpSpecializedKernel<T, kA, kB, Policy, PartsOfK, PartOutput<T, Policy::kTileN / kParts>>;

// Long: the exchange is one protocol: places, flags, and the order in which they are read.
template <class T, Contiguous kA, Contiguous kB, class Policy, int kParts>
struct SplitClustersKernel : SplitClustersBase<T, kA, kB, Policy, kParts> {
  using Base = SplitClustersBase<T, kA, kB, Policy, kParts>;
  using typename Base::Arguments;
  using typename Base::Place;
  using typename Base::Position;
  using typename Base::SharedStorage;
  using typename Base::StageA;
  using typename Base::StageB;
  using typename Base::Store;
  static constexpr int kConsumers = Policy::kConsumers;
  static constexpr int kColumns = Policy::kTileN / kParts;  // that a part stores
  static constexpr int kShare = kColumns / 2;               // of a thread's sums
  static constexpr int kGroup = 128;                        // threads of a warpgroup
  static constexpr int kWarps = kGroup / kWarpSize;
  static_assert(Policy::kUsers == 2 && Policy::kRowBlocks == 1);
  static_assert(kColumns % 16 == 0 && Store::kColumns % kColumns == 0);

  // What part `from` leaves for part `to`: the number of its place. A thread reads what the thread
  // of its number has left, so each warp has a flag.
  struct Exchange {
    const PartsOfK& work;
    int first;  // of this block's tile and this warpgroup

    __device__ __forceinline__ int slot(int to, int from) const {
      return first + (to * kParts + from) * kConsumers;
    }
    __device__ __forceinline__ float* place(int to, int from) const {
      return work.sums + static_cast<int64_t>(slot(to, from)) * (kShare * kGroup) +
             thread_index() % kGroup * 4;
    }
    __device__ __forceinline__ uint32_t* flag(int to, int from) const {
      return work.flags + slot(to, from) * kWarps + warp_index() % kWarps;
    }
  };

  __device__ __forceinline__ static void consume(SharedStorage& shared, const Arguments& g,
                                                 int warp) {
    const int consumer = warp / 4;
    const int mine = g.work.part_of(static_cast<int>(block_index()) / Policy::kCluster);
    Position at;
    Store store{shared.c.pointer(warp * Store::kElements)};
    float sum[1][Policy::kTileN / 2] = {};
    Base::for_each_part(g, [&](const Place& place, const tile::Part& part) {
      multiply_stages<StageA, StageB>(sum, shared.a.pointer(), shared.b.pointer(), shared.pipeline,
                                      at, part.last - part.first, consumer,
                                      [&](int stage) { Base::release(shared, stage); });
      const int block = part.tile * Policy::kCluster + cluster_rank();
      const Exchange exchange{g.work, block * kParts * kParts * kConsumers + consumer};
      float total[kShare];
      leave(exchange, mine, sum[0], total);
      collect(exchange, mine, total);
      const int row = place.from_row + consumer * 64 + warp % 4 * Store::kRows;
      const int column = place.from_column + mine * kColumns;
      if (row >= place.row && column >= place.column) {  // or else another tile has them
        store.template put<kColumns>(g.c.map, row, column, total);
      }
      const int lane = lane_index();
      if (lane < kParts && lane != mine) {
        ptx::st_relaxed<ptx::Scope::kGpu>(exchange.flag(mine, lane), 0u);
      }
    });
    store.finish();
  }

  // The sums of others' columns to their places; the own ones stay.
  __device__ __forceinline__ static void leave(const Exchange& exchange, int mine,
                                               const float (&sum)[Policy::kTileN / 2],
                                               float (&own)[kShare]) {
#pragma unroll
    for (int to = 0; to < kParts; ++to) {
      const float* const share = sum + to * kShare;
      if (to == mine) {
#pragma unroll
        for (int j = 0; j < kShare; ++j) own[j] = share[j];
      } else {
        float* const place = exchange.place(to, mine);
#pragma unroll
        for (int j = 0; j < kShare; j += 4) {
          thread::store(place + j * kGroup,
                        Vec<float, 4>{share[j], share[j + 1], share[j + 2], share[j + 3]});
        }
      }
    }
    ptx::syncwarp();
    const int lane = lane_index();
    if (lane < kParts && lane != mine) {
      ptx::st_release<ptx::Scope::kGpu>(exchange.flag(lane, mine), 1u);
    }
  }

  // The own columns' sums of all parts, in their order; all loads are in flight together.
  __device__ __forceinline__ static void collect(const Exchange& exchange, int mine,
                                                 float (&total)[kShare]) {
    if (lane_index() < kParts && lane_index() != mine) {
      while (ptx::ld_acquire<ptx::Scope::kGpu>(exchange.flag(mine, lane_index())) == 0) {
      }
    }
    ptx::syncwarp();
    Vec<float, 4> more[kParts][kShare / 4];
#pragma unroll
    for (int from = 0; from < kParts; ++from) {
      if (from == mine) continue;
#pragma unroll
      for (int j = 0; j < kShare / 4; ++j) {
        more[from][j] = thread::load<4>(exchange.place(mine, from) + j * 4 * kGroup);
      }
    }
#pragma unroll
    for (int j = 0; j < kShare; ++j) {
      float sum = 0;
#pragma unroll
      for (int from = 0; from < kParts; ++from) {
        sum += from == mine ? total[j] : more[from][j / 4][j % 4];
      }
      total[j] = sum;
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    Base::template play_roles<SplitClustersKernel>(shared, g);
  }

  static void run(const Call& call, void* workspace, Stream stream) {
    const tile::Raster raster = Policy::raster(call);
    auto* const flags = static_cast<std::byte*>(workspace);
    Base::template run<SplitClustersKernel>(
        call, raster, raster.count() * kParts,
        {.steps = static_cast<int>(divide_up(call.k, Base::kTileK)),
         .tiles = raster.count(),
         .parts = kParts,
         .sums = reinterpret_cast<float*>(flags + split_clusters_workspace().zeroed),
         .flags = reinterpret_cast<uint32_t*>(flags)},
        stream);
  }
};

// By the plan.
template <class T>
void run_split_clusters(const Call& call, const ClustersPlan& plan, void* workspace,
                        Stream stream) {
  with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    ClustersPolicies::with(plan.policy, [&]<class Policy>() {
      SplitClustersKernel<T, kA, kB, typename Policy::Tile, Policy::kParts>::run(call, workspace,
                                                                                 stream);
    });
  });
}
// Many kernels: 49_split_clusters.cu and split_clusters_bf16.cu have them.
extern template void run_split_clusters<half>(const Call&, const ClustersPlan&, void*, Stream);
extern template void run_split_clusters<bf16>(const Call&, const ClustersPlan&, void*, Stream);

struct SplitClusters {
  static bool supports(const Call& call, Why& why) {
    return WarpSpecialized::supports(call, why) &&
           why.unless(plan_split_clusters(call).time < kNever,
                      "needs two slices of K, and a place for two clusters a tile at once");
  }
  static Workspace workspace(const Call& /*call*/) { return split_clusters_workspace(); }
  static void run(const Call& call, const Context& context) {
    const ClustersPlan plan = plan_split_clusters(call);
    call.dtype == DType::kF16
        ? run_split_clusters<half>(call, plan, context.workspace, context.stream)
        : run_split_clusters<bf16>(call, plan, context.workspace, context.stream);
  }
};

}  // namespace ws::gemm
