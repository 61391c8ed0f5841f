// Idea: a block for each 128 boxes: it is told, tile by tile, which of those before are kept,
//   strikes out what these overlap, settles its own, and tells the blocks after it.
// From sorted_runs: only boxes that are kept are compared with later ones, by all SMs, and no bits
// of pairs are written for one SM to read.
// Traffic: 24 bytes a box; 16 of each that is kept to each later block, from the L2; 32 a tile.
// Limits: up to 2^30 boxes.
// Long: what a block does while it waits is not what it does when it is told.
#pragma once

#include "kernels/nms/05_sorted_runs.cuh"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/ptx/sleep.hpp"
#include "warpsmith/warp/scan.hpp"

namespace ws::nms {

#if WS_DEVICE_CODE
template <class Test>
struct RelayKernel {
  static constexpr int kTile = 128;                 // boxes
  static constexpr int kWords = kTile / kWarpSize;  // of a tile: which of its boxes are kept
  static constexpr int kThreads = kTile * kWords;   // so many look for each box
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kMinBlocks = 2;
  // Tiles right before a block's own. With those it compares its boxes before it is told which are
  // kept: then an AND is left, while the rest may be a few tiles late.
  static constexpr int kNear = kWarps / kWords;
  struct Arguments {
    Call call;
    Sorted sorted;
    Test is_above;
  };
  struct SharedStorage {
    SharedArray<Box, (kNear + 1) * kTile> rivals;
    SharedArray<int64_t, (kNear + 1) * kTile> classes;  // of the rivals
    // Of near tiles and the block's own: which of their boxes overlap each of its boxes.
    SharedArray<uint32_t, (kNear + 1) * kTile * kWords> overlaps;
    SharedArray<uint32_t, kWarps> kept;  // of 32 boxes each, and how many are kept before these
    SharedArray<int, kWarps> kept_before;
    SharedArray<uint32_t, kWarps> hits;
    SharedArray<int, 2> seen;  // tiles, and boxes of them that are kept
    SharedArray<int64_t, 1> number;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [call, sorted, is_above] = arguments;
    const int64_t tile = draw(shared, sorted);
    const int64_t near = tile < kNear ? tile : kNear;
    // A quarter of each tile's boxes is looked at by each quarter of the threads.
    const int quarter = thread_index() / kTile;
    const int mine = thread_index() % kTile;
    const Looker look(sorted, tile * kTile + mine);

    // What of the near tiles and of its own overlaps.
    const int64_t first = (tile - near) * kTile;
    for (int i = thread_index(); i < (near + 1) * kTile; i += kThreads) {
      put(shared, sorted, i, first + i);
    }
    ptx::barrier_sync();
    for (int t = 0; t <= near; ++t) {
      uint32_t word = 0;
#pragma unroll 4
      for (int bit = 0; bit < kWarpSize; ++bit) {
        const int rival = t * kTile + quarter * kWarpSize + bit;
        if (look.overlaps(shared, rival, is_above)) word |= 1U << bit;
      }
      shared.overlaps[(t * kTile + mine) * kWords + quarter] = word;
    }
    ptx::barrier_sync();

    // Tiles before those, as many at a time as have told.
    bool is_hit = false;
    int64_t found = 0;  // by the first warp: a part for each lane
    for (int64_t next = 0; next < tile - near;) {
      if (warp_index() == 0) found += await(shared, sorted, next, tile - near);
      ptx::barrier_sync();
      const uint32_t kept = shared.kept[warp_index()];
      const int before = shared.kept_before[warp_index()];
      const int seen = shared.seen[0];
      const int rivals = shared.seen[1];
      if ((kept >> lane_index() & 1) != 0) {
        put(shared, sorted, before + ptx::count_bits(kept & below(lane_index())),
            next * kTile + thread_index());
      }
      ptx::barrier_sync();
#pragma unroll 4
      for (int rival = quarter; rival < rivals; rival += kWords) {
        if (look.overlaps(shared, rival, is_above)) is_hit = true;
      }
      next += seen;
    }

    const uint32_t hits = ptx::vote_sync_ballot(kFullMask, is_hit);
    if (lane_index() == 0) shared.hits[warp_index()] = hits;
    ptx::barrier_sync();
    if (warp_index() == 0) found = settle(shared, arguments, tile, static_cast<int>(near), found);
    if ((tile + 1) * kTile < call.count) return;
    if (thread_index() == 0) shared.number[0] = found;
    ptx::barrier_sync();
    const int64_t all = shared.number[0];
    finish(call, all, kThreads);
  }

 private:
  static constexpr uint64_t kTold = uint64_t{1} << 32;  // beside the 32 bits that are told

  __device__ __forceinline__ static uint32_t below(int lane) { return (1U << lane) - 1; }

  // The block's tile: those before it have blocks that have begun, wherever the hardware puts them,
  // so that a block never waits for one that waits for its place.
  __device__ __forceinline__ static int64_t draw(SharedStorage& shared, const Sorted& sorted) {
    if (thread_index() == 0) {
      uint64_t* const drawn = sorted.told + divide_up(sorted.count, kWarpSize);
      shared.number[0] = static_cast<int64_t>(ptx::atom_global_add(drawn, 1));
    }
    ptx::barrier_sync();
    return shared.number[0];
  }

  // What overlaps with nothing stands for boxes behind the last.
  __device__ __forceinline__ static void put(SharedStorage& shared, const Sorted& sorted, int at,
                                             int64_t rank) {
    const bool is_there = rank < sorted.count;
    shared.rivals[at] = is_there ? sorted.box(rank) : Box{};
    shared.classes[at] = is_there ? sorted.class_of(rank) : 0;
  }

  // A box that is compared with rivals.
  struct Looker {
    Box box;
    float area;
    int64_t its_class;

    __device__ __forceinline__ Looker(const Sorted& sorted, int64_t rank)
        : box(rank < sorted.count ? sorted.box(rank) : Box{}),
          area(box.area()),
          its_class(rank < sorted.count ? sorted.class_of(rank) : 0) {}
    __device__ __forceinline__ bool overlaps(SharedStorage& shared, int i,
                                             const Test& is_above) const {
      const Box rival = shared.rivals[i];
      if (!box.meets(rival)) return false;  // nearly all
      const float inter = box.common_with(rival);
      if (!is_above(inter, (area + rival.area()) - inter)) return false;
      const int64_t rivals_class = shared.classes[i];
      return rivals_class == its_class;
    }
  };

  // By the first warp: waits for tile `next`, and takes what those after it have told, too, up to
  // `end`. Gives a part of how many boxes are kept to each lane.
  __device__ __forceinline__ static int await(SharedStorage& shared, const Sorted& sorted,
                                              int64_t next, int64_t end) {
    static_assert(kWarps < kWarpSize);
    const int lane = lane_index();
    const bool is_asked = lane < kWarps && lane < (end - next) * kWords;
    uint64_t told = 0;
    int tiles = 0;
    while (true) {
      if (is_asked) told = ptx::ld_relaxed<ptx::Scope::kGpu>(sorted.told + next * kWords + lane);
      tiles = ptx::lowest_bit(~ptx::vote_sync_ballot(kFullMask, (told & kTold) != 0)) / kWords;
      if (tiles > 0) break;
      // All blocks look at the same words: those whose turn is far off less often.
      ptx::nanosleep(static_cast<uint32_t>(end - next < 16 ? 64 * (end - next) : 1024));
    }
    const uint32_t kept = lane < tiles * kWords ? static_cast<uint32_t>(told) : 0;
    const int count = ptx::count_bits(kept);
    const int up_to = warp::inclusive_scan(count, [](int a, int b) { return a + b; });
    if (lane < kWarps) {
      shared.kept[lane] = kept;
      shared.kept_before[lane] = up_to - count;
    }
    if (lane == kWarpSize - 1) {
      shared.seen[0] = tiles;
      shared.seen[1] = up_to;
    }
    return count;
  }

  // By the first warp, a lane for every 32nd box: strikes out what boxes of near tiles suppress,
  // then what those of the tile do, and tells. `found` before; gives all up to here.
  __device__ __forceinline__ static int64_t settle(SharedStorage& shared,
                                                   const Arguments& arguments, int64_t tile,
                                                   int near, int64_t found) {
    const auto& [call, sorted, is_above] = arguments;
    const int lane = lane_index();
    using Row = Vec<uint32_t, kWords>;  // whom of a tile a box overlaps
    const auto row_of = [&](int t, int s) {
      return shared.overlaps.template load<kWords>((t * kTile + s * kWarpSize + lane) * kWords);
    };
    Row rows[kWords];
    bool is_left[kWords];
#pragma unroll
    for (int s = 0; s < kWords; ++s) {
      uint32_t hits = 0;
#pragma unroll
      for (int q = 0; q < kWords; ++q) hits |= shared.hits[q * kWords + s];
      is_left[s] = tile * kTile + s * kWarpSize + lane < sorted.count && (hits >> lane & 1) == 0;
      rows[s] = row_of(0, s);
    }
    for (int t = 0; t < near; ++t) {
      uint64_t told = kTold;
      do {
        if (lane < kWords) {
          told = ptx::ld_relaxed<ptx::Scope::kGpu>(sorted.told + (tile - near + t) * kWords + lane);
        }
      } while (!ptx::vote_sync_all(kFullMask, (told & kTold) != 0));
      found += ptx::count_bits(static_cast<uint32_t>(told));
      uint32_t hits[kWords] = {};
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const uint32_t kept = warp::shuffle(static_cast<uint32_t>(told), w);
#pragma unroll
        for (int s = 0; s < kWords; ++s) hits[s] |= rows[s][w] & kept;
      }
#pragma unroll
      for (int s = 0; s < kWords; ++s) {
        if (hits[s] != 0) is_left[s] = false;
        rows[s] = row_of(t + 1, s);  // before the next tile is waited for
      }
    }

    // As in tiles.hpp: begins with all that are left, and ends where nothing changes.
    uint32_t kept[kWords];
#pragma unroll
    for (int s = 0; s < kWords; ++s) {
      kept[s] = ptx::vote_sync_ballot(kFullMask, is_left[s]);
      rows[s][s] &= below(lane);
    }
    bool is_settled = false;
    while (!is_settled) {
      uint32_t next[kWords];
#pragma unroll
      for (int s = 0; s < kWords; ++s) {
        uint32_t hits = 0;
#pragma unroll
        for (int w = 0; w <= s; ++w) hits |= rows[s][w] & kept[w];
        next[s] = ptx::vote_sync_ballot(kFullMask, is_left[s] && hits == 0);
      }
      is_settled = true;
#pragma unroll
      for (int s = 0; s < kWords; ++s) {
        is_settled = is_settled && next[s] == kept[s];
        kept[s] = next[s];
      }
    }
    const bool is_last = (tile + 1) * kTile >= sorted.count;
#pragma unroll
    for (int s = 0; s < kWords; ++s) {
      if (lane == s && !is_last) {
        ptx::st_relaxed<ptx::Scope::kGpu>(sorted.told + tile * kWords + s, kTold | kept[s]);
      }
    }

    found = warp::all_reduce(found, [](int64_t a, int64_t b) { return a + b; });
#pragma unroll
    for (int s = 0; s < kWords; ++s) {
      if ((kept[s] >> lane & 1) != 0) {
        const int64_t at = found + ptx::count_bits(kept[s] & below(lane));
        const int64_t rank = tile * kTile + s * kWarpSize + lane;
        thread::store(call.kept + at * call.kept_stride, thread::load(sorted.places + rank));
      }
      found += ptx::count_bits(kept[s]);
    }
    return found;
  }
};
#endif

// The words that are told, and what sorting needs.
template <class Test>
struct Relay {
  static bool supports(const Call& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 30;
    return why.unless(call.count >= 1 && call.count <= kMost, "takes 1 to ", kMost, " boxes, not ",
                      call.count);
  }
  static Workspace workspace(const Call& call) {
    const int64_t keys = call.count <= kMostRanked ? 0 : 2 * call.count;
    return {.bytes = told_bytes(call) + Sorted::bytes(call, keys)};
  }
  static void run(const Call& call, const Context& context) {
    auto* const workspace = static_cast<std::byte*>(context.workspace);
    Sorted sorted(call, workspace + told_bytes(call));
    sorted.told = reinterpret_cast<uint64_t*>(workspace);
    if (call.count <= kMostRanked) {
      sort_by_ranks(call, sorted, context.stream);
    } else {
      sort_by_runs(call, sorted, sorted.words, context.stream);
    }
    using Kernel = RelayKernel<Test>;
    launch<Kernel>({.blocks = divide_up(call.count, Kernel::kTile), .threads = Kernel::kThreads},
                   context.stream, {call, sorted, Test(call.threshold)});
  }

 private:
  static size_t told_bytes(const Call& call) {
    return static_cast<size_t>(divide_up(Sorted::told_words(call.count), 16)) * 16 *
           sizeof(uint64_t);
  }
};

inline constexpr Rung kRelay = rung_of<Relay<Product>, NmsIndices>({
    .name = "relay",
    .from = "sorted_runs",
    .idea = "blocks hand on which of 128 boxes each are kept; only those are compared with others",
});

}  // namespace ws::nms
