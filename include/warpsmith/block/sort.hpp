// Sorts of unsigned integers among the threads of a block, and among the lanes of a warp.
#pragma once

#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/tile.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::block {

// Batcher's bitonic network, largest first (K. E. Batcher, "Sorting networks and their
// applications", 1968). Thread t holds keys t * kKeys to t * kKeys + kKeys - 1 of the order, before
// and after; equal keys may change places. What is exchanged within a thread stays in registers,
// within a warp it is shuffled, and only beyond that does it go through shared memory.
template <class Key, int kThreads, int kKeys>
class BitonicSort {
  static constexpr int kCount = kThreads * kKeys;
  static_assert((kCount & (kCount - 1)) == 0 && kThreads % kWarpSize == 0);
  static constexpr bool kIsWarp = kThreads == kWarpSize;

 public:
  using Keys = thread::Tile<Key, kKeys>;
  struct Storage {
    SharedArray<Key, kIsWarp ? 1 : kCount> keys;
  };

  __device__ __forceinline__ explicit BitonicSort(Storage& storage) : storage_(storage) {}

  // All threads of the block call.
  __device__ __forceinline__ void operator()(Keys& keys WS_AND_PLACE) const {
    const int thread = thread_index() % kThreads;
#pragma unroll
    for (int size = 2; size <= kKeys; size *= 2) {
#pragma unroll
      for (int distance = size / 2; distance > 0; distance /= 2) {
        within_thread(keys, distance, [&](int j) { return ((thread * kKeys + j) & size) == 0; });
      }
    }
#pragma unroll 1
    for (int threads = 2; threads <= kThreads; threads *= 2) {  // that share a sorted part
      const bool descends = (thread & threads) == 0;
#pragma unroll 1
      for (int distance = threads / 2; distance > 0; distance /= 2) {
        const bool keeps_larger = ((thread & distance) == 0) == descends;
        if (kIsWarp || distance < kWarpSize) {
#pragma unroll
          for (int j = 0; j < kKeys; ++j) {
            const Key other = warp::shuffle_xor(keys[j], distance, kFullMask WS_PASS_AND_PLACE);
            keys[j] = chosen(keys[j], other, keeps_larger);
          }
        } else {
          through_shared(keys, thread, distance, keeps_larger WS_PASS_AND_PLACE);
        }
      }
#pragma unroll
      for (int distance = kKeys / 2; distance > 0; distance /= 2) {
        within_thread(keys, distance, [&](int /*j*/) { return descends; });
      }
    }
  }

 private:
  __device__ __forceinline__ static Key chosen(Key mine, Key other, bool larger) {
    return (mine < other) == larger ? other : mine;
  }

  template <class Descends>
  __device__ __forceinline__ static void within_thread(Keys& keys, int distance,
                                                       const Descends& descends) {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      if ((j & distance) != 0) continue;
      const Key low = keys[j];
      const Key high = keys[j + distance];
      const bool swaps = (low < high) == descends(j);
      keys[j] = swaps ? high : low;
      keys[j + distance] = swaps ? low : high;
    }
  }

  // Key j of all threads lies side by side: no two lanes meet in a bank.
  __device__ __forceinline__ void through_shared(Keys& keys, int thread, int distance,
                                                 bool keeps_larger WS_AND_PLACE) const {
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      storage_.keys[{j * kThreads + thread WS_PASS_AND_PLACE}] = keys[j];
    }
    ptx::barrier_sync(WS_PASS_PLACE);
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const Key other = storage_.keys[{j * kThreads + (thread ^ distance) WS_PASS_AND_PLACE}];
      keys[j] = chosen(keys[j], other, keeps_larger);
    }
    ptx::barrier_sync(WS_PASS_PLACE);
  }

  Storage& storage_;
};

}  // namespace ws::block
#endif
