// Boxes in the order of their scores, in the workspace, and the bits that say who overlaps whom.
#pragma once

#include "kernels/nms/boxes.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
struct Sorted {
  int64_t count;
  Box* boxes;
  int64_t* classes;  // null: all are of one
  int64_t* places;   // where they were
  uint64_t* words;
  uint64_t* told = nullptr;  // what putting boxes clears: told_words(); null: nothing

  // A word for 32 boxes, and a last one.
  static int64_t told_words(int64_t count) { return divide_up(count, kWarpSize) + 1; }

  // `words` have room for what a rung makes of pairs.
  static size_t bytes(const Call& call, int64_t words) {
    const int64_t each = static_cast<int64_t>(sizeof(Box)) + (call.classes == nullptr ? 8 : 16);
    return static_cast<size_t>(call.count * each + words * 8);
  }
  Sorted(const Call& call, void* workspace) : count(call.count) {
    boxes = static_cast<Box*>(workspace);
    places = reinterpret_cast<int64_t*>(boxes + count);
    classes = call.classes == nullptr ? nullptr : places + count;
    words = reinterpret_cast<uint64_t*>(places + (call.classes == nullptr ? 1 : 2) * count);
  }

  // Box `place` of the call stands at `rank`.
  __device__ __forceinline__ void put(const Call& call, int64_t rank, int64_t place) const {
    const Box box = box_of(call, place);
    thread::store(reinterpret_cast<float*>(boxes + rank),
                  Vec<float, 4>{{box.x1, box.y1, box.x2, box.y2}});
    thread::store(places + rank, place);
    if (classes != nullptr) {
      thread::store(classes + rank, thread::load(call.classes + place * call.class_stride));
    }
    if (told == nullptr) return;
    if (rank % kWarpSize == 0) thread::store(told + rank / kWarpSize, 0);
    if (rank == count - 1) thread::store(told + rank / kWarpSize + 1, 0);
  }
  __device__ __forceinline__ Box box(int64_t rank) const {
    return std::bit_cast<Box>(thread::load<4>(reinterpret_cast<const float*>(boxes + rank)));
  }
  __device__ __forceinline__ int64_t class_of(int64_t rank) const {
    return classes == nullptr ? 0 : thread::load(classes + rank);
  }
};

// A box's rank is how many come before it: each thread counts for one, 256 keys at a time.
struct RanksKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Call call;
    Sorted sorted;
  };
  struct SharedStorage {
    SharedArray<uint64_t, kThreads> keys;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t mine = block_index() * kThreads + thread_index();
    const uint64_t key = mine < a.call.count ? key_of(a.call, mine) : 0;
    int64_t rank = 0;
    for (int64_t first = 0; first < a.call.count; first += kThreads) {
      const int64_t i = first + thread_index();
      shared.keys[thread_index()] = i < a.call.count ? key_of(a.call, i) : 0;
      ptx::barrier_sync();
      for (int j = 0; j < kThreads; ++j) {
        const uint64_t other = shared.keys[j];
        if (other > key) ++rank;
      }
      ptx::barrier_sync();
    }
    if (mine < a.call.count) a.sorted.put(a.call, rank, mine);
  }
};

// Boxes up to which ranks, in one launch, are quicker than runs, places and a merge for each
// doubling of 4096.
inline constexpr int64_t kMostRanked = 4096;

inline void sort_by_ranks(const Call& call, const Sorted& sorted, Stream stream) {
  launch<RanksKernel>(
      {.blocks = divide_up(call.count, RanksKernel::kThreads), .threads = RanksKernel::kThreads},
      stream, {call, sorted});
}

// What is written behind the indices of `found` boxes, by all threads of a block.
__device__ __forceinline__ void finish(const Call& call, int64_t found, int threads) {
  if (thread_index() == 0) thread::store(call.found, found);
  for (int64_t i = found + thread_index(); i < call.count; i += threads) {
    thread::store(call.kept + i * call.kept_stride, -1);
  }
}
#endif

}  // namespace ws::nms
