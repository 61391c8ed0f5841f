// LookBack: how a tile learns what lies before it while its predecessors are still at work (Merrill
// and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016), with the same
// bits in each run.
//
// There each tile adds up what its predecessors have published so far, back to the first that knows
// its own prefix: how far that is depends on who was quick, and with it the order of additions.
// Here the order is fixed, by a tree: tiles are in groups, groups in bands. What lies before a tile
// is what lies before its band, the totals of the groups before its own in the band, and the totals
// of the tiles before it in the group. A tile publishes its total as soon as it has it, the last
// tile of a group the group's, so that a tile waits for three messages one after the other at most,
// however many tiles there are; only what lies before a band goes from band to band.
#pragma once

#include <bit>

#include "kernels/scan/tile.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/flag.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/flagged.hpp"
#include "warpsmith/warp/reduce.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// `lines` sequences of `tiles` tiles, each of which has `values` totals, one a column; `radix`
// tiles are a group, as many groups a band. All words of the workspace are zero before and after: a
// counter of tiles that have begun; then of each band a counter of tiles that need it no more, what
// lies before it, the totals of its groups and those of its tiles.
struct LookBackPlan {
  int64_t lines = 1;
  int tiles = 1;
  int radix = 1;
  int values = 1;
  int words = 1;  // of a value

  int64_t band_tiles() const { return std::min<int64_t>(tiles, int64_t{radix} * radix); }
  int bands() const { return static_cast<int>(divide_up(int64_t{tiles}, band_tiles())); }
  int64_t band_words() const {
    const int64_t groups = divide_up(band_tiles(), int64_t{radix});
    return 1 + (1 + groups + band_tiles()) * values * words;
  }
  size_t bytes() const {
    return static_cast<size_t>(1 + lines * bands() * band_words()) * sizeof(uint64_t);
  }
  Workspace workspace() const {
    return tiles == 1 ? Workspace{} : Workspace{.bytes = bytes(), .zeroed = bytes()};
  }
};

template <class T>
class LookBack : thread::Flagged<T> {
  using typename thread::Flagged<T>::Seen;
  using thread::Flagged<T>::publish;
  using thread::Flagged<T>::look;
  using thread::Flagged<T>::await;
  using thread::Flagged<T>::awaited;

 public:
  using thread::Flagged<T>::kWords;
  static constexpr int kRadixOfWarps = 32;   // for by_warp()
  static constexpr int kRadixOfThreads = 8;  // for by_thread(), where lines are few

  LookBack() = default;
  LookBack(const LookBackPlan& plan, void* workspace)
      : tiles(plan.tiles),
        radix_(plan.radix),
        bands_(plan.bands()),
        values_(plan.values),
        band_tiles_(static_cast<int>(plan.band_tiles())),
        band_words_(plan.band_words()),
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
    if (lane_index() == 0) tell(line, tile, total);
    return seen_by_warp(line, tile, total, none, merge);
  }
  // The two apart: the first by one thread.
  __device__ __forceinline__ void tell(int64_t line, int tile, const T& total) const {
    publish(place(line, tile).total(0), total);
  }
  template <class Merge>
  __device__ __forceinline__ T seen_by_warp(int64_t line, int tile, const T& total, const T& none,
                                            const Merge& merge) const {
    const Place at = place(line, tile);
    // All loads are under way before anything is waited for.
    Seen in_group{};
    Seen in_band{};
    Seen band{};
    const int mine = lane_index() * kWords;
    if (lane_index() < at.nth) look(in_group, at.of_group + mine);
    if (lane_index() < at.group) look(in_band, at.of_band + mine);
    if (lane_index() == 0 && at.band > 0) look(band, at.before(0));
    T tiles_before = none;
    if (lane_index() < at.nth) tiles_before = await(in_group, at.of_group + mine);
    tiles_before = warp::all_reduce(tiles_before, merge);
    if (at.closes_group && lane_index() == 0)
      publish(at.group_total(0), merge(tiles_before, total));
    T groups_before = none;
    if (lane_index() < at.group) groups_before = await(in_band, at.of_band + mine);
    groups_before = warp::all_reduce(groups_before, merge);
    T sum = merge(groups_before, tiles_before);
    if (at.band > 0) {
      T before = none;
      if (lane_index() == 0) before = await(band, at.before(0));
      sum = merge(warp::shuffle(before, 0), sum);
    }
    if (lane_index() == 0) {
      if (at.closes_band) publish(at.next_before(0), merge(sum, total));
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
    publish(at.total(c), total);
    const T tiles_before = sum_of(at.of_group + c * kWords, at.nth, none, merge);
    if (at.closes_group) publish(at.group_total(c), merge(tiles_before, total));
    T sum = merge(sum_of(at.of_band + c * kWords, at.group, none, merge), tiles_before);
    if (at.band > 0) sum = merge(awaited(at.before(c)), sum);
    if (at.closes_band) publish(at.next_before(c), merge(sum, total));
    return sum;
  }
  __device__ __forceinline__ void done(int64_t line, int tile) const {
    need_no_more(place(line, tile));
  }

  // By the threads `rank` of `ranks`, all of a warp or of a block, after they have written their
  // results: where the tile is its band's last, the band's words are zero again.
  template <class Meet>
  __device__ __forceinline__ void leave(int64_t line, int tile, int rank, int ranks,
                                        const Meet& meet) const {
    const int band = tile / band_tiles_;
    const int nth = tile - band * band_tiles_;
    if (nth != band_tiles_ - 1 && tile != tiles - 1) return;
    uint64_t* words = band_at(line, band);
    if (rank == 0) {
      // Who counts itself has got all that it needs: its loads have returned.
      while (ptx::ld_relaxed<ptx::Scope::kGpu>(words) != static_cast<uint64_t>(nth) + 1) {
      }
      ptx::st_relaxed<ptx::Scope::kGpu>(words, 0);
    }
    meet();
    for (int64_t i = 1 + rank; i < band_words_; i += ranks) {
      ptx::st_relaxed<ptx::Scope::kGpu>(words + i, 0);
    }
  }

 private:
  static constexpr int kBatch = 4;  // of a thread's loads under way together

  struct Place {
    uint64_t* words;     // of the band
    uint64_t* of_band;   // totals of its groups
    uint64_t* of_group;  // totals of the group's tiles
    int64_t stride;      // from band to band
    int each;            // words of all values of a tile
    int band;
    int group;  // of the band's
    int nth;    // of the group's tiles
    bool closes_group;
    bool closes_band;  // and others follow

    __device__ __forceinline__ uint64_t* before(int c) const { return words + 1 + c * kWords; }
    __device__ __forceinline__ uint64_t* next_before(int c) const { return before(c) + stride; }
    __device__ __forceinline__ uint64_t* group_total(int c) const {
      return of_band + group * each + c * kWords;
    }
    __device__ __forceinline__ uint64_t* total(int c) const {
      return of_group + nth * each + c * kWords;
    }
  };
  __device__ __forceinline__ uint64_t* band_at(int64_t line, int band) const {
    return words_ + 1 + (line * bands_ + band) * band_words_;
  }
  __device__ __forceinline__ Place place(int64_t line, int tile) const {
    const int band = tile / band_tiles_;
    const int of_band = tile - band * band_tiles_;
    const int group = of_band / radix_;
    const int nth = of_band - group * radix_;
    const int each = values_ * kWords;
    const int groups = (band_tiles_ + radix_ - 1) / radix_;
    uint64_t* const words = band_at(line, band);
    return {words,
            words + 1 + each,
            words + 1 + (1 + groups + int64_t{group} * radix_) * each,
            band_words_,
            each,
            band,
            group,
            nth,
            nth == radix_ - 1,
            of_band == band_tiles_ - 1 && tile != tiles - 1};
  }
  __device__ __forceinline__ static void need_no_more(const Place& at) {
    ptx::red_global_add(at.words, 1);
  }

  // The sum of the first `count` values at `from`, by one thread, of one column.
  template <class Merge>
  __device__ __forceinline__ T sum_of(const uint64_t* from, int count, const T& none,
                                      const Merge& merge) const {
    const int each = values_ * kWords;
    T sum = none;
    for (int first = 0; first < count; first += kBatch) {
      Seen seen[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (first + j < count) look(seen[j], from + (first + j) * each);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (first + j < count) sum = merge(sum, await(seen[j], from + (first + j) * each));
      }
    }
    return sum;
  }

  int radix_ = 1;
  int bands_ = 1;
  int values_ = 1;
  int band_tiles_ = 1;
  int64_t band_words_ = 0;
  uint64_t* words_ = nullptr;
};

// ---- Rows by warps --------------------------------------------------------------------------

// Of `vectors` vectors, in tiles of `tile`.
template <class Monoid>
LookBackPlan look_back_plan(const Scan& call, int64_t vectors, int64_t tile) {
  using Totals = LookBack<typename Monoid::Accumulator>;
  return {.lines = call.lines,
          .tiles = static_cast<int>(std::min(divide_up(vectors, tile), int64_t{1} << 30)),
          .radix = Totals::kRadixOfWarps,
          .words = Totals::kWords};
}
// In tiles of `tile_bytes` at least.
inline bool tiles_supported(const Scan& call, int64_t tile_bytes, Why& why) {
  const int64_t bytes = call.count * static_cast<int64_t>(size_of(call.dtype)) + 16;
  const int64_t tiles = divide_up(bytes, tile_bytes);
  return why.unless(tiles < (int64_t{1} << 30) && tiles * call.lines < (int64_t{1} << 31),
                    "takes fewer than 2^30 tiles a row and 2^31 in all");
}
inline bool look_back_supports(const Scan& call, int64_t tile_bytes, Why& why) {
  return rows_supported(call, why) && tiles_supported(call, tile_bytes, why);
}

}  // namespace ws::scan
#endif
