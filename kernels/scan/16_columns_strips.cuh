// Idea: the blocks of a cluster stay on a strip of columns and walk down it, a tile each in turn,
// which tensor copies bring and take. What a tile's columns add up to goes to all blocks of the
// cluster, through distributed shared memory, as soon as it is known, tiles before it is needed.
// From columns_staged: no chain from band to band, and nobody looks for words in L2, but where so
// few columns are to share that several clusters walk down one strip.
// Traffic: one read, one write, three passes through shared memory.
// Limits: whole vectors of columns at positive strides; results as wide as elements; logarithms,
// whose totals are twice as wide, in clusters that share no strip.
// Long: what passes between a cluster's warps, and between clusters, is what the rung is about.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/scan/11_columns.cuh"
#include "kernels/scan/monoids.hpp"
#include "kernels/scan/runs.hpp"
#include "kernels/scan/walk.hpp"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/cluster.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/flagged.hpp"
#include "warpsmith/thread/tile.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/warp/shuffle.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// kWarps warps, whose threads have kRows rows of a tile and stand kAcross side by side. Tiles are
// added up kAhead before they are scanned. Clusters have up to kMostBlocks blocks, and up to
// kMostClusters of them walk down one strip.
template <int kWarps_, int kRows_, int kAcross_, int kAhead_, int kMostBlocks_, int kMostClusters_>
struct StripShape {
  static constexpr int kWarps = kWarps_;
  static constexpr int kRows = kRows_;
  static constexpr int kAcross = kAcross_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kMostBlocks = kMostBlocks_;
  static constexpr int kMostClusters = kMostClusters_;
  static constexpr int kWarpRows = kWarpSize / kAcross * kRows;
  static constexpr int kTileRows = kWarps * kWarpRows;
  static_assert(kAhead > 0 && kTileRows <= 256 && kMostBlocks <= 8);
};

template <class Monoid, class Shape>
struct ColumnsStripsKernel {
  using Element = typename Monoid::Element;
  using Accumulator = typename Monoid::Accumulator;
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  using Words = thread::Flagged<Accumulator>;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr bool kLogarithms = kSumsExponentials<Monoid>;
  static constexpr int kWarps = Shape::kWarps;
  static constexpr int kRows = Shape::kRows;
  static constexpr int kAcross = Shape::kAcross;
  static constexpr int kWidth = row::kWidest<Element>;
  static constexpr int kColumns = kAcross * kWidth;  // of a strip
  static constexpr int kTile = Shape::kTileRows * kColumns;
  // Threads that have a column each, in whole warps.
  static constexpr int kOfColumns = (kColumns + kWarpSize - 1) / kWarpSize * kWarpSize;
  static constexpr bool kShares = Shape::kMostClusters > 1;
  static constexpr int kThreads = (kWarps + 2) * kWarpSize + (kShares ? 2 : 1) * kOfColumns;
  static constexpr int kTurns = Shape::kAhead + 1;  // tiles whose totals are on their way
  // Sets of totals of a round. A block sends its own of a round after it has received, and passed
  // on, those of the round kTurns before: all have sent theirs, and are done with kTurns before it.
  static constexpr int kSlots = 2 * kTurns;
  static constexpr int kSets = Shape::kMostBlocks + (kShares ? Shape::kMostClusters : 0);
  // As many as fit.
  static constexpr int kBytes = 227 * 1024;
  static constexpr auto kTotalBytes =
      static_cast<int>(kColumns * sizeof(Accumulator)) * (kTurns * kWarps + kSlots * kSets);
  static constexpr int kTiles =
      std::min(12, (kBytes - 1024 - kTotalBytes) / static_cast<int>(kTile * sizeof(Element)));
  static_assert(kTiles > Shape::kAhead);
  using Pipeline = tile::Pipeline<kTiles>;
  struct Arguments {
    ptx::TensorMap x;  // boxes of a tile
    ptx::TensorMap y;
    Monoid monoid;
    int rows;
    int tiles;     // of a strip
    int rounds;    // a tile for each block that walks down the strip
    int strips;    // of a matrix
    int all;       // of all matrices
    int clusters;  // that walk down a strip
    bool exclusive;
    bool reverse;
    uint64_t* shared;  // between clusters, 0 before and after
  };
  struct SharedStorage {
    SharedArray<Element, kTiles * kTile, 128> tiles;
    SharedArray<Accumulator, kTurns * kWarps * kColumns> totals;  // of warps; then what is before
    SharedArray<Accumulator, kSlots * kSets * kColumns> sent;  // totals of blocks, and of clusters
    SharedArray<uint32_t, 1> leavers;
    Pipeline pipeline;
    ptx::Mbarrier scanned[kTiles];
    ptx::Mbarrier summed[kTurns];   // totals of warps are there, ...
    ptx::Mbarrier known[kTurns];    // ... and what is before them
    ptx::Mbarrier arrived[kSlots];  // totals of the cluster's blocks
    ptx::Mbarrier passed[kSlots];   // ... and of the clusters
  };
  static_assert(sizeof(SharedStorage) <= kBytes);

  static constexpr int words(int clusters) {
    return 1 + kSlots * clusters * kColumns * Words::kWords;
  }

  // Where a warp is on its cluster's way. All of a block's warps go it alike.
  struct Walk {
    const Arguments& a;
    int cluster;  // of its strip's
    int strip;    // of all
    int apart;    // strips from one to the next
    int round = 0;
    typename Pipeline::Position at;
    tile::PipelinePosition<kTurns> turn;
    tile::PipelinePosition<kSlots> slot;
    uint32_t mark = 1;  // of the slot, for those of other clusters

    __device__ __forceinline__ explicit Walk(const Arguments& arguments) : a(arguments) {
      const int of_grid = static_cast<int>(block_index()) / cluster_size();
      apart = static_cast<int>(grid_blocks()) / cluster_size() / a.clusters;
      strip = of_grid / a.clusters;
      cluster = of_grid - strip * a.clusters;
    }
    __device__ __forceinline__ bool is_over() const { return strip >= a.all; }
    __device__ __forceinline__ int nth() const {
      return (round * a.clusters + cluster) * cluster_size() + cluster_rank();
    }
    // In the last round some blocks have none.
    __device__ __forceinline__ bool has_tile() const { return nth() < a.tiles; }
    __device__ __forceinline__ int first_row() const {
      return (a.reverse ? a.tiles - 1 - nth() : nth()) * Shape::kTileRows;
    }
    __device__ __forceinline__ int matrix() const { return strip / a.strips; }
    __device__ __forceinline__ int column() const {
      return (strip - matrix() * a.strips) * kColumns;
    }
    __device__ __forceinline__ void advance() {
      if (has_tile()) at.advance();
      turn.advance();
      slot.advance();
      if (slot.stage == 0) ++mark;
      if (++round == a.rounds) {
        round = 0;
        strip += apart;
      }
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const bool alone = cluster_size() == 1;
    if (thread_index() == 0) {
      shared.pipeline.init(1);
#pragma unroll
      for (ptx::Mbarrier& scanned : shared.scanned) ptx::mbarrier_init(scanned, kWarps);
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        ptx::mbarrier_init(shared.summed[turn], kWarps * kAcross);
        ptx::mbarrier_init(shared.known[turn], publishes(a) ? 2 * kOfColumns : kOfColumns);
      }
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        ptx::mbarrier_init(shared.arrived[slot], 1);
        ptx::mbarrier_init(shared.passed[slot], 1);
      }
      ptx::fence_mbarrier_init();
      if (!alone) {
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) expect(shared, a, slot);
      }
    }
    ptx::barrier_sync();
    if (!alone) {  // all are there, so that they may be sent to
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    }
    const int column = thread_index() - (kWarps + 2) * kWarpSize;
    if (warp_index() < kWarps) {
      scan_tiles(shared, a);
    } else if (warp_index() == kWarps) {
      if (lane_index() == 0) fetch(shared, a);
    } else if (warp_index() == kWarps + 1) {
      if (lane_index() == 0) take_away(shared, a);
    } else if (column < kOfColumns) {
      exchange(shared, a, column);
    } else if constexpr (kShares) {
      if (publishes(a)) {
        publish(shared, a, column - kOfColumns);
      } else if (a.clusters > 1) {
        pass_on(shared, a, column - kOfColumns);
      }
    }
  }

 private:
  __device__ __forceinline__ static void expect(SharedStorage& shared, const Arguments& a,
                                                int slot) {
    constexpr uint32_t kBytesOfSet = kColumns * sizeof(Accumulator);
    ptx::mbarrier_arrive_expect_tx(shared.arrived[slot],
                                   static_cast<uint32_t>(cluster_size()) * kBytesOfSet);
    if (shares(a)) {
      ptx::mbarrier_arrive_expect_tx(shared.passed[slot],
                                     static_cast<uint32_t>(a.clusters) * kBytesOfSet);
    }
  }
  // Several clusters a strip; one block of each publishes.
  __device__ __forceinline__ static bool shares(const Arguments& a) {
    return kShares && a.clusters > 1;
  }
  __device__ __forceinline__ static bool publishes(const Arguments& a) {
    return shares(a) && cluster_rank() == 0;
  }

  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    for (Walk walk(a); !walk.is_over(); walk.advance()) {
      if (!walk.has_tile()) continue;
      ptx::Mbarrier& full = shared.pipeline.acquire(walk.at, kTile * sizeof(Element));
      ptx::tensor_load_3d(shared.tiles.pointer(walk.at.stage * kTile), a.x, full, walk.column(),
                          walk.first_row(), walk.matrix());
    }
  }

  __device__ __forceinline__ static void take_away(SharedStorage& shared, const Arguments& a) {
    for (Walk walk(a); !walk.is_over(); walk.advance()) {
      if (!walk.has_tile()) continue;
      ptx::mbarrier_wait_parity(shared.scanned[walk.at.stage], walk.at.parity);
      ptx::tensor_store_3d(a.y, walk.column(), walk.first_row(), walk.matrix(),
                           shared.tiles.pointer(walk.at.stage * kTile));
      ptx::bulk_commit_group();
      ptx::bulk_wait_group_read<0>();
      shared.pipeline.release(walk.at.stage);
    }
  }

  // ---- Warps that scan a part of a tile's rows each -------------------------------------------

  using Held = Packed<Element>[kRows];
  using OfColumns = Accumulator[kWidth];

  __device__ __forceinline__ static void scan_tiles(SharedStorage& shared, const Arguments& a) {
    Walk ahead(a);
    for (int i = 0; i < Shape::kAhead && !ahead.is_over(); ++i) add_up(shared, a, ahead);
    for (Walk walk(a); !walk.is_over(); walk.advance()) {
      if (!ahead.is_over()) add_up(shared, a, ahead);
      scan_part(shared, a, walk);
    }
  }
  // In a tile, of the thread's first row in the order of the scan; the others follow by step().
  __device__ __forceinline__ static int first_place(const Arguments& a) {
    const int nth = warp_index() * Shape::kWarpRows + lane_index() / kAcross * kRows;
    return (a.reverse ? Shape::kTileRows - 1 - nth : nth) * kColumns +
           lane_index() % kAcross * kWidth;
  }
  __device__ __forceinline__ static int step(const Arguments& a) {
    return a.reverse ? -kColumns : kColumns;
  }
  __device__ __forceinline__ static Packed<Element> load(SharedStorage& shared, int place) {
    return std::bit_cast<Packed<Element>>(shared.tiles.template load<kWidth>(place));
  }
  __device__ __forceinline__ static void load(SharedStorage& shared, const Arguments& a,
                                              const Walk& walk, Held& held) {
    int place = walk.at.stage * kTile + first_place(a);
#pragma unroll
    for (int r = 0; r < kRows; ++r, place += step(a)) held[r] = load(shared, place);
  }
  // What the thread's columns add up to in its rows.
  __device__ __forceinline__ static void fold(const Arguments& a, const Held& held,
                                              OfColumns& sums) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sums[e] = a.monoid.lift(element(held[0], e));
#pragma unroll
    for (int r = 1; r < kRows; ++r) add(a, held[r], sums);
  }
  __device__ __forceinline__ static void add(const Arguments& a, const Packed<Element>& x,
                                             OfColumns& sums) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      sums[e] = Monoid::merge(sums[e], a.monoid.lift(element(x, e)));
    }
  }
  // Of all threads of the warp that stand one below the other.
  template <class Sum, class Merge>
  __device__ __forceinline__ static Sum of_warp(Sum sum, const Merge& merge) {
#pragma unroll
    for (int distance = kAcross; distance < kWarpSize; distance *= 2) {
      sum = merge(sum, warp::shuffle_xor(sum, distance));
    }
    return sum;
  }
  struct Plus {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
  };
  // The largest of the columns in the warp's rows.
  __device__ __forceinline__ static Packed<Element> largest_of_warp(const Held& held) {
    Packed<Element> largest = row::largest_of_each(held);
#pragma unroll
    for (int distance = kAcross; distance < kWarpSize; distance *= 2) {
      const Packed<Element> both[] = {largest, warp::shuffle_xor(largest, distance)};
      largest = row::largest_of_each(both);
    }
    return largest;
  }
  // Gives the totals of the warp's part of the next tile, once it has landed.
  __device__ __forceinline__ static void add_up(SharedStorage& shared, const Arguments& a,
                                                Walk& walk) {
    OfColumns sums;
    if (walk.has_tile()) {
      shared.pipeline.wait(walk.at);
      fill_edge(shared, a, walk);
      Held held;
      load(shared, a, walk, held);
      if constexpr (kLogarithms) {
        const Packed<Element> largest = largest_of_warp(held);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          ShiftedSum part(largest[e]);
#pragma unroll
          for (int r = 0; r < kRows; ++r) part.add(held[r][e]);
          sums[e] = {largest[e], of_warp(part.sum(), Plus{})};
        }
      } else {
        fold(a, held, sums);
#pragma unroll
        for (Accumulator& sum : sums) sum = of_warp(sum, Monoid::merge);
      }
    } else {
#pragma unroll
      for (Accumulator& sum : sums) sum = Monoid::none();
    }
    if (lane_index() < kAcross) {
      const int mine = totals_at(walk, warp_index()) + lane_index() * kWidth;
#pragma unroll
      for (int e = 0; e < kWidth; e += kAbreast) {
        Vec<Accumulator, kAbreast> some;
#pragma unroll
        for (int i = 0; i < kAbreast; ++i) some[i] = sums[e + i];
        shared.totals.template store<kAbreast>(mine + e, some);
      }
      ptx::mbarrier_arrive(shared.summed[walk.turn.stage]);
    }
    walk.advance();
  }
  static constexpr int kAbreast = 16 / sizeof(Accumulator);  // of an access
  __device__ __forceinline__ static int totals_at(const Walk& walk, int warp) {
    return (walk.turn.stage * kWarps + warp) * kColumns;
  }
  // A copy has put zeros where the tile goes beyond the last row.
  __device__ __forceinline__ static void fill_edge(SharedStorage& shared, const Arguments& a,
                                                   const Walk& walk) {
    const int left = a.rows - walk.first_row();
    if (left >= Shape::kTileRows) return;
    const Packed<Element> none = filled_with(a.monoid.filler());
    int place = first_place(a);
#pragma unroll 1
    for (int r = 0; r < kRows; ++r, place += step(a)) {
      if (place >= left * kColumns) {
        shared.tiles.template store<kWidth>(walk.at.stage * kTile + place,
                                            std::bit_cast<Vec<Element, kWidth>>(none));
      }
    }
  }
  __device__ __forceinline__ static void scan_part(SharedStorage& shared, const Arguments& a,
                                                   const Walk& walk) {
    if (!walk.has_tile()) {
      ptx::mbarrier_wait_parity(shared.known[walk.turn.stage], walk.turn.parity);
      // Who has no column is waited for by nobody else, and could fall a phase behind.
      ptx::syncwarp();
      return;
    }
    bool done = false;
    if constexpr (kLogarithms) done = scan_shifted(shared, a, walk);
    if (!done) scan_by_merges(shared, a, walk);
    ptx::fence_proxy_async();
    ptx::syncwarp();
    if (lane_index() == 0) ptx::mbarrier_arrive(shared.scanned[walk.at.stage]);
  }
  // Of the warp's threads one below the other, what lies before each, by `merge`.
  template <class Sum, class Merge>
  __device__ __forceinline__ static Sum before_thread(Sum sum, const Sum& none,
                                                      const Merge& merge) {
#pragma unroll
    for (int distance = kAcross; distance < kWarpSize; distance *= 2) {
      const Sum above = warp::shuffle_up(sum, distance);
      if (lane_index() >= distance) sum = merge(above, sum);
    }
    sum = warp::shuffle_up(sum, kAcross % kWarpSize);
    return lane_index() < kAcross ? none : sum;
  }
  // What lies before the warp's part, once it is known.
  __device__ __forceinline__ static void await(SharedStorage& shared, const Walk& walk,
                                               OfColumns& before) {
    ptx::mbarrier_wait_parity(shared.known[walk.turn.stage], walk.turn.parity);
    const int mine = totals_at(walk, warp_index()) + lane_index() % kAcross * kWidth;
#pragma unroll
    for (int e = 0; e < kWidth; e += kAbreast) {
      const Vec<Accumulator, kAbreast> some = shared.totals.template load<kAbreast>(mine + e);
#pragma unroll
      for (int i = 0; i < kAbreast; ++i) before[e + i] = some[i];
    }
  }
  // Results to where the elements were.
  __device__ __forceinline__ static void scan_by_merges(SharedStorage& shared, const Arguments& a,
                                                        const Walk& walk) {
    const int first = walk.at.stage * kTile + first_place(a);
    OfColumns running;
    if constexpr (kLogarithms) {  // seldom: short rather than fast
#pragma unroll
      for (Accumulator& sum : running) sum = Monoid::none();
#pragma unroll 1
      for (int r = 0; r < kRows; ++r) add(a, load(shared, first + r * step(a)), running);
      scan_warp(shared, walk, running);
#pragma unroll 1
      for (int r = 0; r < kRows; ++r) {
        const int place = first + r * step(a);
        const Packed<Element> x = load(shared, place);
        a.exclusive ? store<true>(shared, a, place, x, running)
                    : store<false>(shared, a, place, x, running);
      }
    } else {
      Held held;
      load(shared, a, walk, held);
      fold(a, held, running);
      row::stay_packed(held);
      scan_warp(shared, walk, running);
      a.exclusive ? store_all<true>(shared, a, first, held, running)
                  : store_all<false>(shared, a, first, held, running);
    }
  }
  // From what a thread's columns add up to to what lies before them.
  __device__ __forceinline__ static void scan_warp(SharedStorage& shared, const Walk& walk,
                                                   OfColumns& running) {
#pragma unroll
    for (Accumulator& sum : running) sum = before_thread(sum, Monoid::none(), Monoid::merge);
    OfColumns before;
    await(shared, walk, before);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) running[e] = Monoid::merge(before[e], running[e]);
  }
  template <bool kExclusive>
  __device__ __forceinline__ static void store_all(SharedStorage& shared, const Arguments& a,
                                                   int place, const Held& held,
                                                   OfColumns& running) {
#pragma unroll
    for (int r = 0; r < kRows; ++r, place += step(a)) {
      store<kExclusive>(shared, a, place, held[r], running);
    }
  }
  template <bool kExclusive>
  __device__ __forceinline__ static void store(SharedStorage& shared, const Arguments& a, int place,
                                               const Packed<Element>& x, OfColumns& running) {
    Vec<Lowered, kWidth> lowered;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const Accumulator with = Monoid::merge(running[e], a.monoid.lift(element(x, e)));
      lowered[e] = a.monoid.lower(kExclusive ? running[e] : with);
      running[e] = with;
    }
    shared.tiles.template store<kWidth>(place, results<Element>(lowered));
  }
  // Sums of exponentials: those of the warp's rows have one shift, and are kept, so that they add
  // up, until what lies before them is known; false where that does not go together with it.
  __device__ __forceinline__ static bool scan_shifted(SharedStorage& shared, const Arguments& a,
                                                      const Walk& walk) {
    Held held;
    load(shared, a, walk, held);
    const Packed<Element> largest = largest_of_warp(held);
    const Packed<Element> first = warp::shuffle(held[0], lane_index() % kAcross);
    thread::Tile<float, kWidth> terms[kRows];
    thread::Tile<float, kWidth> above;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      ShiftedSum part(largest[e]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        terms[r][e] = part.term(held[r][e]);
        above[e] = r == 0 ? terms[r][e] : above[e] + terms[r][e];
      }
      above[e] = before_thread(above[e], 0.0F, Plus{});
    }
    OfColumns before;
    await(shared, walk, before);
    bool takes = true;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      takes = takes && ShiftedSum::takes(before[e], first[e], largest[e]);
    }
    if (!ptx::vote_sync_all(kFullMask, takes)) return false;
    const auto sums =
        thread::tile_of<kWidth>([&](int e) { return ShiftedSum(before[e], first[e]); });
    const auto factors = thread::tile_of<kWidth>(
        [&](int e) { return sums[e].term(ShiftedSum(largest[e]).shift()); });
    int place = walk.at.stage * kTile + first_place(a);
#pragma unroll
    for (int r = 0; r < kRows; ++r, place += step(a)) {
      Vec<float, kWidth> lowered;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const float with = above[e] + terms[r][e];
        const float sum = a.exclusive ? above[e] : with;
        lowered[e] = sums[e].logarithm_of(thread::fma(sum, factors[e], sums[e].sum()));
        above[e] = with;
      }
      shared.tiles.template store<kWidth>(place, results<Element>(lowered));
    }
    return true;
  }

  // ---- A thread a column, between blocks and between clusters ---------------------------------

  // Blocks of the cluster, then clusters.
  __device__ __forceinline__ static int sent_at(const Walk& walk, int set) {
    return (walk.slot.stage * kSets + set) * kColumns;
  }
  using Totals = thread::Tile<Accumulator, kWarps>;
  // Of the warps, all loaded before one is looked at.
  __device__ __forceinline__ static Totals totals(SharedStorage& shared, const Walk& walk,
                                                  int column) {
    return thread::tile_of<kWarps>([&](int w) {
      const Accumulator of_warp = shared.totals[totals_at(walk, w) + column];
      return of_warp;
    });
  }
  // The sum of `count` sets from `first` on, all loaded before one is looked at; `before` that of
  // those before the `own`-th.
  template <int kMost>
  __device__ __forceinline__ static Accumulator of_sets(SharedStorage& shared, const Walk& walk,
                                                        int column, int first, int count, int own,
                                                        Accumulator& before) {
    const auto sent = thread::tile_of<kMost>([&](int i) {
      Accumulator of_set = Monoid::none();
      if (i < count) of_set = shared.sent[sent_at(walk, first + i) + column];
      return of_set;
    });
    Accumulator all = Monoid::none();
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i >= count) continue;
      if (i == own) before = all;
      all = Monoid::merge(all, sent[i]);
    }
    return all;
  }
  __device__ __forceinline__ static Accumulator of_cluster(SharedStorage& shared, const Walk& walk,
                                                           int column, Accumulator& before) {
    return of_sets<Shape::kMostBlocks>(shared, walk, column, 0, cluster_size(), cluster_rank(),
                                       before);
  }
  __device__ __forceinline__ static void exchange(SharedStorage& shared, const Arguments& a,
                                                  int column) {
    Walk ahead(a);
    for (int i = 0; i < Shape::kAhead - 1 && !ahead.is_over(); ++i) send(shared, ahead, column);
    Accumulator above = Monoid::none();
    for (Walk walk(a); !walk.is_over(); walk.advance()) {
      if (!ahead.is_over()) send(shared, ahead, column);
      if (walk.round == 0) above = Monoid::none();
      receive(shared, a, walk, column, above);
    }
    if (publishes(a)) leave(shared, a, column);
  }
  // The block's totals of a round to all blocks of the cluster.
  __device__ __forceinline__ static void send(SharedStorage& shared, Walk& walk, int column) {
    ptx::mbarrier_wait_parity(shared.summed[walk.turn.stage], walk.turn.parity);
    if (column < kColumns) {
      const Totals own = totals(shared, walk, column);
      Accumulator total = Monoid::none();
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        shared.totals[totals_at(walk, w) + column] = total;
        total = Monoid::merge(total, own[w]);
      }
      const int set = cluster_rank();
      if (cluster_size() == 1) {
        shared.sent[sent_at(walk, set) + column] = total;
      } else {
        send_to_all(shared, walk, column, set, total, shared.arrived[walk.slot.stage]);
      }
    }
    walk.advance();
  }
  __device__ __forceinline__ static void send_to_all(SharedStorage& shared, const Walk& walk,
                                                     int column, int set, const Accumulator& total,
                                                     ptx::Mbarrier& barrier) {
    Accumulator* const to = shared.sent.pointer(sent_at(walk, set) + column);
    for (int rank = 0; rank < cluster_size(); ++rank) {
      ptx::st_async(ptx::map_shared_rank(to, rank), total, ptx::map_shared_rank(&barrier, rank));
    }
  }
  // What lies before each warp's part of a tile; `above` before the round's tiles.
  __device__ __forceinline__ static void receive(SharedStorage& shared, const Arguments& a,
                                                 const Walk& walk, int column, Accumulator& above) {
    if (cluster_size() > 1) {
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.arrived[walk.slot.stage],
                                                      walk.slot.parity);
      if (shares(a)) {
        ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.passed[walk.slot.stage],
                                                        walk.slot.parity);
      }
      if (column == 0) expect(shared, a, walk.slot.stage);
    }
    if (column < kColumns) {
      Accumulator before = Monoid::none();
      Accumulator all = of_cluster(shared, walk, column, before);
      if constexpr (kShares) {
        if (a.clusters > 1) {
          Accumulator of_clusters = Monoid::none();
          all = of_sets<Shape::kMostClusters>(shared, walk, column, Shape::kMostBlocks, a.clusters,
                                              walk.cluster, of_clusters);
          before = Monoid::merge(of_clusters, before);
        }
      }
      before = Monoid::merge(above, before);
      above = Monoid::merge(above, all);
      const Totals within = totals(shared, walk, column);
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        shared.totals[totals_at(walk, w) + column] = Monoid::merge(before, within[w]);
      }
    }
    ptx::mbarrier_arrive(shared.known[walk.turn.stage]);
  }

  // Of the clusters that walk down the same strips: a counter, and totals of each slot.
  __device__ __forceinline__ static uint64_t* words_of(const Arguments& a) {
    const int team = static_cast<int>(block_index()) / (cluster_size() * a.clusters);
    return a.shared + int64_t{team} * words(a.clusters);
  }
  __device__ __forceinline__ static uint64_t* words_of(const Arguments& a, const Walk& walk,
                                                       int cluster, int column) {
    return words_of(a) + 1 +
           ((walk.slot.stage * a.clusters + cluster) * kColumns + column) * Words::kWords;
  }
  // The cluster's totals, for the others.
  __device__ __forceinline__ static void publish(SharedStorage& shared, const Arguments& a,
                                                 int column) {
    for (Walk walk(a); !walk.is_over(); walk.advance()) {
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.arrived[walk.slot.stage],
                                                      walk.slot.parity);
      if (column < kColumns) {
        Accumulator before = Monoid::none();
        const Accumulator all = of_cluster(shared, walk, column, before);
        Words::publish(words_of(a, walk, walk.cluster, column), all, walk.mark);
      }
      ptx::mbarrier_arrive(shared.known[walk.turn.stage]);
    }
  }
  // The totals of some of the clusters, which no other block of this one asks for, to all its
  // blocks.
  __device__ __forceinline__ static void pass_on(SharedStorage& shared, const Arguments& a,
                                                 int column) {
    const int first = cluster_rank() - 1;
    if (first >= a.clusters || column >= kColumns) return;  // nobody would wait for who stays
    for (Walk walk(a); !walk.is_over(); walk.advance()) {
      // All blocks have sent, so that the slot's last totals have been received.
      ptx::mbarrier_wait_parity<ptx::Scope::kCluster>(shared.arrived[walk.slot.stage],
                                                      walk.slot.parity);
      constexpr int kBatch = 4;
      const int apart = cluster_size() - 1;
      for (int next = first; next < a.clusters; next += kBatch * apart) {
        typename Words::Seen seen[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int cluster = next + i * apart;
          if (cluster < a.clusters) Words::look(seen[i], words_of(a, walk, cluster, column));
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int cluster = next + i * apart;
          if (cluster >= a.clusters) continue;
          const Accumulator total =
              Words::await(seen[i], words_of(a, walk, cluster, column), walk.mark);
          send_to_all(shared, walk, column, Shape::kMostBlocks + cluster, total,
                      shared.passed[walk.slot.stage]);
        }
      }
    }
  }
  // The last block that has received all that it needs leaves zeros.
  __device__ __forceinline__ static void leave(SharedStorage& shared, const Arguments& a,
                                               int column) {
    constexpr int kBarrier = 1;
    uint64_t* const first = words_of(a);
    ptx::barrier_sync(kBarrier, kOfColumns);
    if (column == 0) {
      shared.leavers[0] = static_cast<uint32_t>(ptx::atom_global_add(first, 1));
    }
    ptx::barrier_sync(kBarrier, kOfColumns);
    const uint32_t before = shared.leavers[0];
    if (before + 1 != static_cast<uint32_t>(a.clusters)) return;
    for (int i = column; i < words(a.clusters); i += kOfColumns) {
      ptx::st_relaxed<ptx::Scope::kGpu>(first + i, 0);
    }
  }
};

// Who walks down which strips, and what that is expected to take.
struct StripPlan {
  int cluster = 1;    // blocks of it
  int clusters = 1;   // that walk down a strip
  int64_t teams = 1;  // of as many clusters
  int kernel = -1;    // of those that there are
  double time = 0;
};

// Microseconds that blocks take for a tile of 32 KiB each (H200 2026-11-30). By itself a block
// takes 1.1, of 16 bits 1.5; 2 where all SMs share the memory's rate, which narrow strips use less
// well, as do clusters that are not free where to go. What passes between clusters takes longer, as
// do logarithms (H200 2026-12-01: 1.9, of 16 bits 3.3).
template <class Shape>
double time_of_tile(int element_bytes, bool logarithms, int cluster, int clusters, int64_t blocks) {
  const double share = static_cast<double>(blocks) / std::max(device_facts().multiprocessors, 1);
  const double spread = cluster > 4 ? 1.2 : cluster > 2 ? 1.1 : 1.0;
  double alone = element_bytes == 2 ? 1.5 : 1.1;
  if (logarithms) alone = element_bytes == 2 ? 3.3 : 1.9;
  if (cluster > 4) alone *= 1.06;
  if (clusters > 1) alone = clusters > 8 ? 3.2 : 2.1;
  return std::max(alone, 2.0 * share * spread) * (Shape::kAcross < 16 ? 1.04 : 1.0);
}

// Kernels of Shapes, wider strips first, the last ones for clusters that share a strip.
template <class... Shapes>
struct ColumnsStrips {
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    if (!Columns::supports_whole(call, why)) return false;
    const auto [matrices, columns] = Columns::shape_of(call);
    constexpr int64_t kMost = int64_t{1} << 30;
    constexpr int64_t kMostStride = int64_t{1} << 36;  // elements: a tensor map takes 2^40 bytes
    bool strides = true;
    for (size_t k = 0; k < 2; ++k) {
      const int64_t of_matrix = matrices.extent > 1 ? matrices.strides[k] : 1;
      strides = strides && call.strides[k] > 0 && call.strides[k] < kMostStride && of_matrix > 0 &&
                of_matrix < kMostStride;
    }
    return why.unless(call.dtype == call.output_dtype,
                      "results take the places of elements, and have to be as wide") &&
           why.unless(strides, "takes rows and matrices at positive strides below ", kMostStride) &&
           why.unless(call.count < kMost && call.lines < kMost, "takes fewer than ", kMost,
                      " columns, of fewer elements");
  }
  // For as many clusters as there may be.
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      const auto ask = [&]<class Shape>() {
        if constexpr (Shape::kMostClusters > 1 && kTakes<Monoid, Shape>) {
          using Kernel = ColumnsStripsKernel<Monoid, Shape>;
          const int64_t strips = strips_of<Kernel>(call);
          const int clusters = clusters_of<Shape>(most_held<Shape>(), strips);
          if (clusters < 2) return;
          const size_t bytes =
              static_cast<size_t>(strips) * Kernel::words(clusters) * sizeof(uint64_t);
          workspace.bytes = workspace.zeroed = std::max(workspace.bytes, bytes);
        }
      };
      (ask.template operator()<Shapes>(), ...);
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      StripPlan best;
      int kernel = 0;
      (consider<Monoid, Shapes>(call, kernel++, best), ...);
      kernel = 0;
      (launch_if<Monoid, Shapes>(best.kernel == kernel++, call, monoid, best, context), ...);
    });
  }

 private:
  // Wider strips of many columns would take what shared memory there is for their totals; so would
  // logarithms, whose totals are a maximum and a sum, of all clusters of a strip.
  template <class Monoid, class Shape>
  static constexpr bool kTakes =
      std::is_same_v<typename Monoid::Element, typename Monoid::Result> &&
      (kSumsExponentials<Monoid> ? Shape::kMostClusters == 1
                                 : sizeof(typename Monoid::Accumulator) <=
                                       std::max(sizeof(typename Monoid::Result), sizeof(float))) &&
      Shape::kAcross * row::kWidest<typename Monoid::Element> <= 64;

  // Of all matrices.
  template <class Kernel>
  static int64_t strips_of(const Scan& call) {
    const auto [matrices, columns] = Columns::shape_of(call);
    return matrices.extent * divide_up(columns.extent, int64_t{Kernel::kColumns});
  }
  // Clusters of all blocks, on this device; the emulator shows two.
  template <class Shape>
  static int64_t most_held() {
    return std::max(device_facts().multiprocessors / Shape::kMostBlocks, 2);
  }
  // Clusters of a strip, where there are `held`.
  template <class Shape>
  static int clusters_of(int64_t held, int64_t strips) {
    return static_cast<int>(std::min<int64_t>(held / strips, Shape::kMostClusters));
  }
  template <class Monoid, class Shape>
  static void consider(const Scan& call, int kernel, StripPlan& best) {
    if constexpr (kTakes<Monoid, Shape>) {
      consider_kernel<ColumnsStripsKernel<Monoid, Shape>, Shape>(call, kernel, best);
    }
  }
  template <class Monoid, class Shape>
  static void launch_if(bool chosen, const Scan& call, const Monoid& monoid, const StripPlan& plan,
                        const Context& context) {
    if constexpr (kTakes<Monoid, Shape>) {
      if (chosen) launch_on<ColumnsStripsKernel<Monoid, Shape>, Shape>(call, monoid, plan, context);
    }
  }
  template <class Kernel, class Shape>
  static void consider_kernel(const Scan& call, int kernel, StripPlan& best) {
    const int64_t tiles = divide_up(call.count, int64_t{Shape::kTileRows});
    const int64_t strips = strips_of<Kernel>(call);
    const auto consider = [&](int cluster, int clusters, int64_t held) {
      // Where none is resident a launch says why.
      const int64_t teams = std::min(std::max<int64_t>(held / clusters, 1), strips);
      const int64_t walks = strips / teams;  // of teams that all have a strip
      const int64_t rounds = divide_up(tiles, int64_t{cluster} * clusters);
      const auto time = [&](int64_t some) {
        return some == 0
                   ? 0.0
                   : time_of_tile<Shape>(sizeof(typename Kernel::Element), Kernel::kLogarithms,
                                         cluster, clusters, some * clusters * cluster);
      };
      const double all = static_cast<double>(rounds) *
                         (static_cast<double>(walks) * time(teams) + time(strips % teams));
      if (best.kernel < 0 || all < best.time) best = {cluster, clusters, teams, kernel, all};
    };
    const auto held = [](int cluster) {
      return resident_clusters<Kernel>(
          {.blocks = cluster, .threads = Kernel::kThreads, .cluster = cluster});
    };
    if constexpr (Shape::kMostClusters > 1) {
      constexpr int kCluster = Shape::kMostBlocks;
      const int64_t all = std::min(held(kCluster), most_held<Shape>());
      const int clusters = clusters_of<Shape>(all, strips);
      if (clusters < 2) return;
      consider(kCluster, clusters, all);
    } else {
      for (int cluster = 1; cluster <= Shape::kMostBlocks; cluster *= 2) {
        consider(cluster, 1, held(cluster));
      }
    }
  }
  template <class Kernel, class Shape, class Monoid>
  static void launch_on(const Scan& call, const Monoid& monoid, const StripPlan& plan,
                        const Context& context) {
    const auto [matrices, columns] = Columns::shape_of(call);
    const ptx::MatrixBatch x{.count = matrices.extent, .stride = matrices.strides[0]};
    const ptx::MatrixBatch y{.count = matrices.extent, .stride = matrices.strides[1]};
    typename Kernel::Arguments a{};
    a.x = ptx::make_tensor_map_3d(static_cast<const typename Monoid::Element*>(call.input), x,
                                  call.count, columns.extent, call.strides[0], Shape::kTileRows,
                                  Kernel::kColumns, ptx::Swizzle::kNone);
    a.y = ptx::make_tensor_map_3d(static_cast<const typename Monoid::Result*>(call.output), y,
                                  call.count, columns.extent, call.strides[1], Shape::kTileRows,
                                  Kernel::kColumns, ptx::Swizzle::kNone);
    a.monoid = monoid;
    a.rows = static_cast<int>(call.count);
    a.tiles = static_cast<int>(divide_up(call.count, int64_t{Shape::kTileRows}));
    a.rounds = static_cast<int>(divide_up(int64_t{a.tiles}, int64_t{plan.cluster} * plan.clusters));
    a.strips = static_cast<int>(divide_up(columns.extent, int64_t{Kernel::kColumns}));
    a.all = static_cast<int>(strips_of<Kernel>(call));
    a.clusters = plan.clusters;
    a.exclusive = call.exclusive;
    a.reverse = call.reverse;
    a.shared = static_cast<uint64_t*>(context.workspace);
    // Clusters that wait for one another are there at once.
    launch<Kernel>({.blocks = plan.teams * plan.clusters * plan.cluster,
                    .threads = Kernel::kThreads,
                    .cluster = plan.cluster,
                    .cooperative = plan.clusters > 1},
                   context.stream, a);
  }
};

}  // namespace ws::scan
#endif
