// Work of a persistent grid whose tiles may be cut along K: who has a part, and how its sums reach
// the block that stores the tile.
#pragma once

#include <algorithm>

#include "kernels/gemm/policies.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/tile/stream_k.hpp"

namespace ws::gemm {

// Parts of tiles, and the sums that wait for the rest of their tile: a place for each warpgroup of
// each block. flags[] is zero before and after.
struct CutTiles : tile::StreamK {
  static constexpr bool kCooperative = true;
  static constexpr int kThreads = 128;  // of a warpgroup
  static constexpr int kBarrier = 1;

  float* sums = nullptr;
  uint32_t* flags = nullptr;

  // Each has at least a slice, or those who wait for it would wait for ever.
  template <class Policy>
  static int clusters(int tiles, int steps) {
    return static_cast<int>(std::min<int64_t>(device_facts().multiprocessors / Policy::kCluster,
                                              int64_t{tiles} * steps));
  }
  template <class Policy>
  static CutTiles of(int tiles, int steps, void* workspace);

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

template <class Policy>
CutTiles CutTiles::of(int tiles, int steps, void* workspace) {
  static_assert(Policy::kTileM * Policy::kTileN <= WgmmaBig::kTileM * WgmmaBig::kTileN);
  auto* const flags_at = static_cast<std::byte*>(workspace);
  CutTiles work{tile::StreamK::of(tiles, steps, clusters<Policy>(tiles, steps))};
  work.flags = reinterpret_cast<uint32_t*>(flags_at);
  work.sums = reinterpret_cast<float*>(flags_at + stream_k_workspace().zeroed);
  return work;
}

}  // namespace ws::gemm
