// Pairs in tiles of 64 x 64 boxes, and the sweep over them.
//
// A tile says which of 64 boxes, its earlier ones, overlap each of 64 others, its later ones: a
// word for each later box. Tiles below the diagonal are not made, and those of the same later boxes
// lie side by side: that is what the sweep reads at once.
#pragma once

#include "kernels/nms/sorted.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::nms {

inline constexpr int kTileBoxes = 64;
inline constexpr int64_t kMostTiled = int64_t{1} << 17;  // boxes: 1 GiB of words

inline bool is_tiled(const Call& call, Why& why) {
  return why.unless(call.count >= 1 && call.count <= kMostTiled, "takes 1 to ", kMostTiled,
                    " boxes, not ", call.count);
}

// How many tiles there are of later boxes below `later`: where its own begin.
constexpr int64_t tiles_before(int64_t later) { return later * (later + 1) / 2; }

inline int64_t words_of_tiles(const Call& call) {
  return tiles_before(divide_up(call.count, kTileBoxes)) * kTileBoxes;
}

#if WS_DEVICE_CODE
template <class Test>
struct TilesKernel {
  static constexpr int kThreads = kTileBoxes;
  struct Arguments {
    Sorted sorted;
    Test is_above;
  };
  struct SharedStorage {
    SharedArray<Box, kTileBoxes> boxes;
    SharedArray<float, kTileBoxes> areas;
    SharedArray<int64_t, kTileBoxes> classes;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [sorted, is_above] = arguments;
    const int64_t later = later_of(block_index());
    const int64_t earlier = block_index() - tiles_before(later);
    const int64_t mine = later * kTileBoxes + thread_index();
    const int64_t loaded = earlier * kTileBoxes + thread_index();
    // What overlaps with nothing stands for boxes behind the last.
    const Box none{};
    const Box other = loaded < sorted.count ? sorted.box(loaded) : none;
    shared.boxes[thread_index()] = other;
    shared.areas[thread_index()] = other.area();
    shared.classes[thread_index()] = loaded < sorted.count ? sorted.class_of(loaded) : 0;
    ptx::barrier_sync();
    const Box box = mine < sorted.count ? sorted.box(mine) : none;
    const float area = box.area();
    const int64_t its_class = mine < sorted.count ? sorted.class_of(mine) : 0;
    uint64_t word = 0;
#pragma unroll 4
    for (int bit = 0; bit < kTileBoxes; ++bit) {
      const Box rival = shared.boxes[bit];
      const int64_t rivals_class = shared.classes[bit];
      const float rivals_area = shared.areas[bit];
      const float inter = box.common_with(rival);
      const bool is_hit = is_above(inter, (area + rivals_area) - inter);
      if (is_hit && rivals_class == its_class) word |= uint64_t{1} << bit;
    }
    if (earlier == later) word &= (uint64_t{1} << thread_index()) - 1;
    thread::store(sorted.words + block_index() * kTileBoxes + thread_index(), word);
  }

 private:
  // The largest with tiles_before(later) <= tile; a root is a place off at most.
  __device__ __forceinline__ static int64_t later_of(int64_t tile) {
    auto later = static_cast<int64_t>((::sqrt(8.0 * static_cast<double>(tile) + 1) - 1) / 2);
    while (tiles_before(later) > tile) --later;
    while (tiles_before(later + 1) <= tile) ++later;
    return later;
  }
};

// 64 boxes at a time, in order: first, by all threads, which of them are suppressed by earlier
// boxes that are kept; then, by a warp, which by one another.
struct TileSweepKernel {
  static constexpr int kThreads = 1024;
  static constexpr int kGroups = kThreads / kTileBoxes;  // each has another tile
  struct Arguments {
    Call call;
    Sorted sorted;
  };
  struct SharedStorage {
    SharedArray<uint64_t, kMostTiled / kTileBoxes> kept;
    SharedArray<uint32_t, kThreads / kWarpSize> hits;  // of 32 later boxes
    SharedArray<int64_t, 1> found;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [call, sorted] = arguments;
    const int64_t tiles = divide_up(call.count, kTileBoxes);
    int64_t found = 0;  // counted by the first warp
    for (int64_t later = 0; later < tiles; ++later) {
      const uint64_t* const words =
          sorted.words + tiles_before(later) * kTileBoxes + thread_index() % kTileBoxes;
      uint64_t hit = 0;
#pragma unroll 4
      for (int64_t earlier = thread_index() / kTileBoxes; earlier < later; earlier += kGroups) {
        const uint64_t kept = shared.kept[earlier];
        hit |= thread::load(words + earlier * kTileBoxes) & kept;
      }
      const uint32_t hits = ptx::vote_sync_ballot(kFullMask, hit != 0);
      if (lane_index() == 0) shared.hits[warp_index()] = hits;
      ptx::barrier_sync();
      if (warp_index() == 0) found += settle(shared, arguments, later, found);
      ptx::barrier_sync();
    }
    if (thread_index() == 0) shared.found[0] = found;
    ptx::barrier_sync();
    const int64_t all = shared.found[0];
    finish(call, all, kThreads);
  }

 private:
  // Of the tile's boxes, by a warp; gives how many are kept.
  __device__ __forceinline__ static int settle(SharedStorage& shared, const Arguments& arguments,
                                               int64_t later, int64_t found) {
    const auto& [call, sorted] = arguments;
    const int lane = lane_index();
    const int64_t first = later * kTileBoxes;
    // Warps with an even number have the lower half of the boxes.
    const uint32_t mine = shared.hits[lane];
    const uint64_t suppressed =
        warp::all_reduce(lane % 2 == 0 ? uint64_t{mine} : uint64_t{mine} << 32,
                         [](uint64_t a, uint64_t b) { return a | b; });
    const int64_t boxes = call.count - first;
    const uint64_t there = boxes < kTileBoxes ? (uint64_t{1} << boxes) - 1 : ~uint64_t{0};
    const uint64_t* const words = sorted.words + (tiles_before(later) + later) * kTileBoxes;
    const uint64_t kept = kept_of(there & ~suppressed, thread::load(words + lane),
                                  thread::load(words + kWarpSize + lane));
    if (lane == 0) shared.kept[later] = kept;
    for (int bit = lane; bit < kTileBoxes; bit += kWarpSize) {
      if ((kept >> bit & 1) == 0) continue;
      const int64_t rank = found + count_bits(kept & ((uint64_t{1} << bit) - 1));
      thread::store(call.kept + rank * call.kept_stride, thread::load(sorted.places + first + bit));
    }
    return count_bits(kept);
  }

  // Those of `left` that none of their own suppresses; `low` and `high` say who would suppress box
  // `lane` and box `lane` + 32, all of them before it. Begins with all, and strikes out who is hit
  // by any that is kept, until nothing changes. As the first box is right after one round, the
  // second after two, this ends, and what does not change is what the definition says.
  __device__ __forceinline__ static uint64_t kept_of(uint64_t left, uint64_t low, uint64_t high) {
    const int lane = lane_index();
    uint64_t kept = left;
    while (true) {
      const bool keeps_low = (left >> lane & 1) != 0 && (low & kept) == 0;
      const bool keeps_high = (left >> (lane + kWarpSize) & 1) != 0 && (high & kept) == 0;
      const uint64_t next = uint64_t{ptx::vote_sync_ballot(kFullMask, keeps_high)} << kWarpSize |
                            ptx::vote_sync_ballot(kFullMask, keeps_low);
      if (next == kept) return kept;
      kept = next;
    }
  }

  __device__ __forceinline__ static int count_bits(uint64_t word) {
    return ptx::count_bits(static_cast<uint32_t>(word)) +
           ptx::count_bits(static_cast<uint32_t>(word >> 32));
  }
};

// Of sorted boxes.
template <class Test>
void run_tiles(const Call& call, const Sorted& sorted, Stream stream) {
  launch<TilesKernel<Test>>(
      {.blocks = tiles_before(divide_up(call.count, kTileBoxes)), .threads = kTileBoxes}, stream,
      {sorted, Test(call.threshold)});
  launch<TileSweepKernel>({.threads = TileSweepKernel::kThreads}, stream, {call, sorted});
}
#endif

}  // namespace ws::nms
