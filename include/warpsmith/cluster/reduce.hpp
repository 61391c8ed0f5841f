// All-reduce among the threads of a cluster's blocks, through distributed shared memory.
#pragma once

#include <bit>

#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::cluster {

inline constexpr int kMaxBlocks = 16;  // of a cluster; more than 8 are not portable

#if WS_DEVICE_CODE

// All-reduce of T (4, 8 or 16 bytes) over the first kThreads threads of each block of the cluster;
// one object per thread, any number of calls, which all blocks make alike.
//
// A block merges its warps' values behind a barrier of these threads (kBarrier); its first warp
// sends the result to every block by st.async, which counts the bytes on that block's mbarrier: a
// block waits for data to arrive, never for other blocks to come to a barrier.
//
// A call may be made in two parts, so that other work covers the way between blocks: send(), and
// later receive(); up to kAhead more sends may lie between them. Sets of slots serve in turn. With
// none ahead two are enough: a block sends for call i + 1 after it has read the slots of call i,
// and nobody sends for call i + 2 before all have sent for i + 1. Each send that may run ahead adds
// two, since a block is then known to have read no more than the slots of that many calls before.
template <ptx::ClusterValue T, int kThreads, int kBarrier = 1, int kAhead = 0>
class AllReduce {
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(
      kThreads % kWarpSize == 0 && std::has_single_bit(static_cast<unsigned>(kWarps)) &&
          kWarps <= kWarpSize,
      "1, 2, 4, 8, 16 or 32 whole warps, so that one warp can read all of their partials");
  static constexpr int kSets = 2 + 2 * kAhead;
  static_assert(std::has_single_bit(static_cast<unsigned>(kSets)));

 public:
  struct Storage {
    SharedArray<T, kSets * kWarps> warps;
    SharedArray<T, kSets * kMaxBlocks> blocks;
    ptx::Mbarrier arrived[kSets];
  };

  // Every thread of the cluster constructs and meets the others here: no block may send to one that
  // has not begun.
  __device__ __forceinline__ explicit AllReduce(Storage& storage) : storage_(storage) {
    if (thread_index() == 0) {
#pragma unroll
      for (ptx::Mbarrier& arrived : storage.arrived) ptx::mbarrier_init(arrived, 1);
      ptx::fence_mbarrier_init();
    }
    meet();
  }

  // Each thread gets the same bits. `none` changes nothing it is combined with.
  template <class Combine>
  __device__ __forceinline__ T operator()(T value, const T& none,
                                          const Combine& combine WS_AND_PLACE) {
    return of_warps(warp::all_reduce(value, combine WS_PASS_AND_PLACE), none,
                    combine WS_PASS_AND_PLACE);
  }

  // The same where the lanes of each warp already hold their warp's value.
  template <class Combine>
  __device__ __forceinline__ T of_warps(const T& value, const T& none,
                                        const Combine& combine WS_AND_PLACE) {
    send_warps(value, combine WS_PASS_AND_PLACE);
    return receive(none, combine WS_PASS_AND_PLACE);
  }

  // In two parts. The lanes of each warp hold their warp's value.
  template <class Combine>
  __device__ __forceinline__ void send_warps(const T& value, const Combine& combine WS_AND_PLACE) {
    const int set = sent_++ % kSets;
    if (lane_index() == 0) storage_.warps[{set * kWarps + warp_index() WS_PASS_AND_PLACE}] = value;
    ptx::barrier_sync(kBarrier, kThreads WS_PASS_AND_PLACE);
    // st.async is for others: a block alone has all that it needs.
    if (warp_index() == 0 && cluster_size() > 1)
      send(of_block(set, combine WS_PASS_AND_PLACE), set WS_PASS_AND_PLACE);
  }
  template <class Combine>
  __device__ __forceinline__ T receive(const T& none, const Combine& combine WS_AND_PLACE) {
    const int set = received_ % kSets;
    const auto parity = static_cast<uint32_t>(received_++ / kSets & 1);
    const int blocks = cluster_size();
    if (blocks == 1) return of_block(set, combine WS_PASS_AND_PLACE);
    ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(storage_.arrived[set],
                                                    parity WS_PASS_AND_PLACE);
    T total = none;
    const int sender = lane_index() % kMaxBlocks;
    if (sender < blocks) total = storage_.blocks[{set * kMaxBlocks + sender WS_PASS_AND_PLACE}];
    return warp::all_reduce<kMaxBlocks>(total, combine WS_PASS_AND_PLACE);
  }

  // Before a block ends: the others may still be sending to it. Lanes may come on different ways.
  __device__ __forceinline__ void finish(WS_PLACE) const {
    ptx::syncwarp();
    meet(WS_PASS_PLACE);
  }

 private:
  // Only to be there: a release would wait until all that a block has written is in memory.
  __device__ __forceinline__ static void meet(WS_PLACE) {
    ptx::cluster_arrive_relaxed(WS_PASS_PLACE);
    ptx::cluster_wait(WS_PASS_PLACE);
  }

  template <class Combine>
  __device__ __forceinline__ T of_block(int set, const Combine& combine WS_AND_PLACE) {
    const T partial = storage_.warps[{set * kWarps + lane_index() % kWarps WS_PASS_AND_PLACE}];
    return warp::all_reduce<kWarps>(partial, combine WS_PASS_AND_PLACE);
  }

  // By the first warp: the block's value to each block of the cluster, this one too.
  __device__ __forceinline__ void send(const T& value, int set WS_AND_PLACE) {
    const int blocks = cluster_size();
    const int lane = lane_index();
    if (lane == 0) {
      ptx::mbarrier_arrive_expect_tx(storage_.arrived[set],
                                     static_cast<uint32_t>(blocks * sizeof(T)) WS_PASS_AND_PLACE);
    }
    if (lane < blocks) {
      const int slot = set * kMaxBlocks + cluster_rank();
      ptx::st_async(ptx::map_shared_rank(storage_.blocks.pointer(slot), lane), value,
                    ptx::map_shared_rank(&storage_.arrived[set], lane) WS_PASS_AND_PLACE);
    }
  }

  Storage& storage_;
  int sent_ = 0;
  int received_ = 0;
};

#endif

}  // namespace ws::cluster
