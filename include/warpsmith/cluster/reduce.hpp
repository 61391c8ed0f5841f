// All-reduce among the threads of a cluster's blocks, through distributed shared memory.
#pragma once

#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/mbarrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::cluster {

inline constexpr int kMaxBlocks = 16;  // of a cluster; more than 8 are not portable

#if defined(WS_EMULATED) || defined(__CUDACC__)

// All-reduce of T (4, 8 or 16 bytes) over kThreads threads of each block of the cluster; one object
// per thread, any number of calls, which all blocks make alike.
//
// Each warp sends its partial to every block by st.async, which counts the bytes on that block's
// mbarrier: a block waits for data to arrive, never for other blocks to come to a barrier. Two sets
// of slots serve in turn. A warp sends for call i + 1 after it has read the slots of call i, and
// nobody sends for call i + 2 before all have sent for i + 1: so two sets are enough.
template <ptx::ClusterValue T, int kThreads>
class AllReduce {
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kThreads % kWarpSize == 0 && kWarps <= kWarpSize);

 public:
  struct Storage {
    SharedArray<T, 2 * kWarps * kMaxBlocks> partials;
    ptx::Mbarrier arrived[2];
  };

  // Every thread of the cluster constructs and meets the others here: no block may send to one that
  // has not begun.
  __device__ __forceinline__ explicit AllReduce(Storage& storage) : storage_(storage) {
    if (thread_index() == 0) {
      ptx::mbarrier_init(storage.arrived[0], 1);
      ptx::mbarrier_init(storage.arrived[1], 1);
      ptx::fence_mbarrier_init();
    }
    ptx::cluster_sync();
  }

  // Every thread of the cluster calls; each gets the same bits. `none` changes nothing it is combined
  // with.
  template <class Combine>
  __device__ __forceinline__ T operator()(T value, const T& none, const Combine& combine) {
    const int blocks = cluster_size();
    const int set = turn_ & 1;
    const int first = set * kWarps * kMaxBlocks;
    const int partials = blocks * kWarps;
    if (thread_index() == 0) {
      ptx::mbarrier_arrive_expect_tx(storage_.arrived[set],
                                     static_cast<uint32_t>(partials * sizeof(T)));
    }
    value = warp::all_reduce(value, combine);
    if (lane_index() < blocks) {
      const int slot = first + cluster_rank() * kWarps + warp_index();
      ptx::st_async(ptx::map_shared_rank(storage_.partials.pointer(slot), lane_index()), value,
                    ptx::map_shared_rank(&storage_.arrived[set], lane_index()));
    }
    ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(storage_.arrived[set],
                                                    static_cast<uint32_t>(turn_ >> 1 & 1));
    ++turn_;
    T total = none;
    for (int i = lane_index(); i < partials; i += kWarpSize) {
      const T partial = storage_.partials[first + i];
      total = combine(total, partial);
    }
    return warp::all_reduce(total, combine);
  }

  // Before a block ends: the others may still be sending to it.
  __device__ __forceinline__ void finish() const { ptx::cluster_sync(); }

 private:
  Storage& storage_;
  int turn_ = 0;
};

#endif

}  // namespace ws::cluster
