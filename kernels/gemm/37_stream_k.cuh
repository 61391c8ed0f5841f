// Idea: the tiles of a last wave that is not full are cut along K, so that every block multiplies
//   as long as any other. Who begins a tile adds the sums of those who go on with it, and stores.
// From warp_specialized: no SM waits for the last wave. The sums travel through global memory in
//   the order of registers, written early: a worker's part of another's tile is its first.
// Traffic: twice 4 bytes an element of the cut tiles more, to and from L2.
// Limits: as warp_specialized; a workspace of the sums of a tile for each multiprocessor.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "warpsmith/ptx/flag.hpp"

namespace ws::gemm {

// Parts of tiles, and the sums that wait for the rest of their tile: a place for each warpgroup of
// each block. flags[] is zero before and after.
struct CutTiles : tile::StreamK {
  static constexpr bool kCooperative = true;
  static constexpr int kThreads = 128;  // of a warpgroup
  static constexpr int kBarrier = 1;

  float* sums = nullptr;
  uint32_t* flags = nullptr;

  template <class Policy, int kRows, int kSums>
  __device__ __forceinline__ bool complete(const tile::Part& part, int consumer,
                                           float (&sum)[kRows][kSums]) const {
    const auto block = static_cast<int>(block_index());
    if (part.first > 0) {
      leave(block * Policy::kConsumers + consumer, consumer, sum);
      return false;
    }
    const auto clusters = static_cast<int>(grid_blocks()) / Policy::kCluster;
    int ahead = 0;
    for (int done = part.last; done < steps;) {
      ++ahead;
      add((block + ahead * Policy::kCluster) * Policy::kConsumers + consumer, consumer, sum);
      const int end = first_of(block / Policy::kCluster + ahead + 1, clusters);
      done = end - part.tile * steps;
    }
    return true;
  }

 private:
  // A warpgroup's sums to its place, four of a thread at a time.
  template <int kRows, int kSums>
  __device__ __forceinline__ void leave(int place, int consumer,
                                        const float (&sum)[kRows][kSums]) const {
    float* const to = place_of<kRows * kSums>(place);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kSums; j += 4) {
        thread::store(to + (i * kSums + j) * kThreads,
                      Vec<float, 4>{sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]});
      }
    }
    ptx::barrier_sync(kBarrier + consumer, kThreads);
    if (thread_index() % kThreads == 0) ptx::st_release<ptx::Scope::kGpu>(flags + place, 1u);
  }
  template <int kRows, int kSums>
  __device__ __forceinline__ void add(int place, int consumer, float (&sum)[kRows][kSums]) const {
    while (ptx::ld_acquire<ptx::Scope::kGpu>(flags + place) == 0) {
    }
    const float* const from = place_of<kRows * kSums>(place);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kSums; j += 4) {
        const auto more = thread::load<4>(from + (i * kSums + j) * kThreads);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[i][j + k] += more[k];
      }
    }
    ptx::barrier_sync(kBarrier + consumer, kThreads);
    if (thread_index() % kThreads == 0) ptx::st_relaxed<ptx::Scope::kGpu>(flags + place, 0u);
  }
  template <int kCount>
  __device__ __forceinline__ float* place_of(int place) const {
    return sums + static_cast<int64_t>(place) * kCount * kThreads + thread_index() % kThreads * 4;
  }
};

// A place for each warpgroup of a full grid: their flags, then their sums.
inline Workspace stream_k_workspace() {
  using Policy = WgmmaBig;
  const int64_t blocks = device_facts().multiprocessors;
  const auto flags = static_cast<size_t>(round_up(blocks * Policy::kConsumers * 4, 256));
  const auto sums = static_cast<size_t>(blocks * Policy::kTileM * Policy::kTileN * 4);
  return {.bytes = flags + sums, .zeroed = flags};
}

template <class T, Contiguous kA, Contiguous kB, class Output>
void run_stream_k(const Call& call, void* workspace, Stream stream) {
  using Policy = WgmmaBig;
  const tile::Raster raster = Policy::raster(call);
  const auto steps = static_cast<int>(divide_up(call.k, Policy::kTileK));
  // Each has at least a slice, or those who wait for it would wait for ever.
  const auto clusters = static_cast<int>(std::min<int64_t>(
      device_facts().multiprocessors / Policy::kCluster, int64_t{raster.count()} * steps));
  auto* const flags = static_cast<std::byte*>(workspace);
  CutTiles work{tile::StreamK::of(raster.count(), steps, clusters)};
  work.flags = reinterpret_cast<uint32_t*>(flags);
  work.sums = reinterpret_cast<float*>(flags + stream_k_workspace().zeroed);
  WarpSpecializedKernel<T, kA, kB, Policy, CutTiles, Output>::run(call, raster, clusters, work,
                                                                  stream);
}

struct StreamK {
  static bool supports(const Call& call, Why& why) { return WarpSpecialized::supports(call, why); }
  static Workspace workspace(const Call& /*call*/) { return stream_k_workspace(); }
  static void run(const Call& call, const Context& context) {
    with_types<kHalves>(call, [&]<class T, Contiguous kA, Contiguous kB>() {
      run_stream_k<T, kA, kB, TensorOutput<T>>(call, context.workspace, context.stream);
    });
  }
};

}  // namespace ws::gemm
