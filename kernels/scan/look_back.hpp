// LookBack: how a tile learns what lies before it while its predecessors are still at work (Merrill
// and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016), with the same
// bits in each run.
//
// There each tile adds up what its predecessors have published so far, back to the first that knows
// its own prefix: how far that is depends on who was quick, and with it the order of additions.
// Here tiles are in groups, and the order is fixed: what lies before a tile is the prefix of its
// group, which the last tile of the group before has published, and the totals of the tiles before
// it in the group, which those publish as soon as they have them. The wait for one another, a
// microsecond, is then once a group, not once a tile.
//
// A value travels in the words that say that it is there: 32 bits of it and a flag to each, in one
// access. So no fence stands between the two, and all accesses may be relaxed.
#pragma once

#include <bit>

#include "catalogue/catalogue.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/warp/reduce.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// `lines` sequences of `tiles` tiles, each of which has `values` totals, one a column. All words of
// the workspace are zero before and after: a counter of tiles that have begun; then of each group a
// counter of those that need it no more, its prefixes, and the totals of its tiles.
struct LookBackPlan {
  int64_t lines = 1;
  int tiles = 1;
  int group = 1;  // tiles
  int values = 1;
  int words = 1;  // of a value

  int groups() const { return static_cast<int>(divide_up(tiles, group)); }
  int64_t group_words() const { return 2 + int64_t{group} * values * words; }
  size_t bytes() const {
    return static_cast<size_t>(2 + lines * groups() * group_words()) * sizeof(uint64_t);
  }
  Workspace workspace() const {
    return tiles == 1 ? Workspace{} : Workspace{.bytes = bytes(), .zeroed = bytes()};
  }
};

template <class T>
class LookBack {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);

 public:
  static constexpr int kWords = sizeof(T) / 4;
  static constexpr int kMostOfGroup = 128;

  LookBack() = default;
  LookBack(const LookBackPlan& plan, void* workspace)
      : tiles(plan.tiles),
        group_(plan.group),
        groups_(plan.groups()),
        values_(plan.values),
        group_words_(plan.group_words()),
        words_(static_cast<uint64_t*>(workspace)) {}

  int tiles = 1;

  // A number for this block, told to all its threads: tiles with smaller ones have begun, wherever
  // the hardware has put their blocks, so that whoever waits for them does not wait for ever.
  __device__ __forceinline__ uint32_t draw(SharedArray<uint32_t, 1>& drawn) const {
    if (thread_index() == 0) {
      const uint64_t mine = ptx::atom_global_add(words_, 1);
      if (mine + 1 == static_cast<uint64_t>(grid_blocks())) ptx::atom_global_exch(words_, 0);
      drawn[0] = static_cast<uint32_t>(mine);
    }
    ptx::barrier_sync();
    return drawn[0];
  }

  // Of a tile with one total, by a warp: publishes it, and gives what lies before the tile.
  template <class Merge>
  __device__ __forceinline__ T by_warp(int64_t line, int tile, const T& total, const T& none,
                                       const Merge& merge) const {
    const Place at = place(line, tile);
    if (lane_index() == 0 && !at.closes) publish(at.total(at.nth, 0), total);
    constexpr int kMost = kMostOfGroup / kWarpSize;
    uint64_t seen[kMost][kWords];
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      const int before = j * kWarpSize + lane_index();
      if (before < at.nth) look(seen[j], at.total(before, 0));
    }
    T sum = none;
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      const int before = j * kWarpSize + lane_index();
      if (before < at.nth) sum = merge(sum, await(seen[j], at.total(before, 0)));
    }
    sum = warp::all_reduce(sum, merge);
    if (at.group > 0) {
      T prefix = none;
      if (lane_index() == 0) {
        look(seen[0], at.prefix(0));
        prefix = await(seen[0], at.prefix(0));
      }
      sum = merge(warp::shuffle(prefix, 0), sum);
    }
    if (lane_index() == 0) {
      if (at.closes && !at.ends) publish(at.next_prefix(0), merge(sum, total));
      need_no_more(at);
    }
    return sum;
  }

  // Of a tile with several, by a thread for each: the same for column `c`. After a barrier one
  // thread calls done().
  template <class Merge>
  __device__ __forceinline__ T by_thread(int64_t line, int tile, int c, const T& total,
                                         const T& none, const Merge& merge) const {
    const Place at = place(line, tile);
    if (!at.closes) publish(at.total(at.nth, c), total);
    constexpr int kBatch = 2;
    T sum = none;
    for (int first = 0; first < at.nth; first += kBatch) {
      uint64_t seen[kBatch][kWords];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (first + j < at.nth) look(seen[j], at.total(first + j, c));
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (first + j < at.nth) sum = merge(sum, await(seen[j], at.total(first + j, c)));
      }
    }
    if (at.group > 0) {
      uint64_t seen[kWords];
      look(seen, at.prefix(c));
      sum = merge(await(seen, at.prefix(c)), sum);
    }
    if (at.closes && !at.ends) publish(at.next_prefix(c), merge(sum, total));
    return sum;
  }
  __device__ __forceinline__ void done(int64_t line, int tile) const {
    need_no_more(place(line, tile));
  }

  // By the threads `rank` of `ranks`, all of a warp or of a block, after they have written their
  // results: where the tile is its group's last, the group's words are zero again.
  template <class Meet>
  __device__ __forceinline__ void leave(int64_t line, int tile, int rank, int ranks,
                                        const Meet& meet) const {
    const Place at = place(line, tile);
    if (!at.closes) return;
    if (rank == 0) {
      // Who counts itself has got all that it needs: its loads have returned.
      while (ptx::ld_relaxed<ptx::Scope::kGpu>(at.words) != static_cast<uint64_t>(at.nth) + 1) {
      }
      ptx::st_relaxed<ptx::Scope::kGpu>(at.words, 0);
    }
    meet();
    const int count = (at.nth + 1) * values_ * kWords;
    for (int i = rank; i < count; i += ranks) {
      ptx::st_relaxed<ptx::Scope::kGpu>(at.words + 1 + i, 0);
    }
  }

 private:
  struct Place {
    uint64_t* words;  // of the group
    int64_t stride;   // from group to group
    int values;
    int group;
    int nth;      // of the group's tiles
    bool closes;  // the group
    bool ends;    // the line

    // Prefixes come first, so that the last tile's totals, which nobody needs, have no place.
    __device__ __forceinline__ uint64_t* prefix(int c) const { return words + 1 + c * kWords; }
    __device__ __forceinline__ uint64_t* next_prefix(int c) const { return prefix(c) + stride; }
    __device__ __forceinline__ uint64_t* total(int tile, int c) const {
      return prefix((tile + 1) * values + c);
    }
  };
  __device__ __forceinline__ Place place(int64_t line, int tile) const {
    const int group = tile / group_;
    const int nth = tile - group * group_;
    const bool ends = tile == tiles - 1;
    return {words_ + 2 + (line * groups_ + group) * group_words_,
            group_words_,
            values_,
            group,
            nth,
            ends || nth == group_ - 1,
            ends};
  }
  __device__ __forceinline__ static void need_no_more(const Place& at) {
    ptx::red_global_add(at.words, 1);
  }

  // ---- Values with flags ----------------------------------------------------------------------

  static constexpr uint64_t kThere = uint64_t{1} << 32;
  using Halves = Vec<uint32_t, kWords>;

  __device__ __forceinline__ static void publish(uint64_t* at, const T& value) {
    const auto halves = std::bit_cast<Halves>(value);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      ptx::st_relaxed<ptx::Scope::kGpu>(at + w, kThere | halves[w]);
    }
  }
  __device__ __forceinline__ static void look(uint64_t (&seen)[kWords], const uint64_t* at) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) seen[w] = ptx::ld_relaxed<ptx::Scope::kGpu>(at + w);
  }
  __device__ __forceinline__ static T await(uint64_t (&seen)[kWords], const uint64_t* at) {
    Halves halves;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      while ((seen[w] & kThere) == 0) seen[w] = ptx::ld_relaxed<ptx::Scope::kGpu>(at + w);
      halves[w] = static_cast<uint32_t>(seen[w]);
    }
    return std::bit_cast<T>(halves);
  }

  int group_ = 1;
  int groups_ = 1;
  int values_ = 1;
  int64_t group_words_ = 0;
  uint64_t* words_ = nullptr;
};

}  // namespace ws::scan
#endif
