// Idea: warps of one block, the server, read all tiles' totals in their order, and answer each tile
// with what lies before it. Others look at one word, which is theirs alone.
// From look_back_queue: hundreds of warps that look for the same few words hold up those who write
// them; and from a tile's total to what lies before it there are two messages, never three. Tiles
// are scanned in runs, as in row_queue.
// Traffic: one read, one write, three passes through shared memory; 32 bytes a tile, in L2.
// Limits: rows whose elements lie side by side; results as wide as elements.
// Long: kinds of warps, and what passes between them, which is what the rung is about.
#pragma once

#include "kernels/scan/runs.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/thread/flagged.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// kWarps warps have kVectors vectors a lane of a tile each; kTiles tiles are in shared memory, and
// are added up kAhead before they are scanned; kServers warps of one block serve.
template <int kWarps_, int kVectors_, int kTiles_, int kAhead_, int kServers_>
struct ServerShape {
  static constexpr int kWarps = kWarps_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kServers = kServers_;
  static_assert(kAhead < kTiles && kWarps <= kWarpSize);
  static constexpr int64_t kTile = int64_t{kWarps} * kVectors * kWarpSize;  // vectors
};

template <class Monoid, class Shape>
struct ServerKernel {
  using Element = typename Monoid::Element;
  using Accumulator = typename Monoid::Accumulator;
  using Words = thread::Flagged<Accumulator>;
  using Tile = Runs<Monoid, Shape::kVectors>;
  using Pipeline = tile::Pipeline<Shape::kTiles>;
  using Position = typename Pipeline::Position;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWarps = Shape::kWarps;
  static constexpr int kServers = kTakesRegisters<Monoid> ? 1 : Shape::kServers;
  static constexpr int kScanners = kWarps * kWarpSize;
  static constexpr int kThreads = kScanners + (3 + kServers) * kWarpSize;
  static constexpr int kWidth = Tile::kWidth;
  static constexpr int kTile = kScanners * Tile::kRun;  // elements
  static constexpr int kTurns = Shape::kAhead + 1;      // tiles whose totals are on their way
  using Turn = tile::PipelinePosition<kTurns>;
  struct Arguments {
    Monoid monoid;
    Rows<Monoid> rows;
    int64_t vectors;  // of a row
    uint32_t tiles;   // of a row
    uint32_t items;   // tiles of all rows
    uint64_t* next;   // 0 before and after, as all words
    uint64_t* words;  // totals of all items, then what lies before each in its row
  };
  struct SharedStorage {
    SharedArray<Element, Shape::kTiles * kTile, 128> parts;
    SharedArray<uint32_t, Shape::kTiles> item;
    SharedArray<uint32_t, 1> first_item;
    SharedArray<Accumulator, kTurns * kWarps> totals;  // of warps, ...
    SharedArray<Accumulator, kTurns * kWarps> within;  // ... what lies before each in its tile, ...
    SharedArray<Accumulator, kTurns * kWarps> before;  // ... and in its row
    SharedArray<Accumulator, kServers> carry;          // from group to group of items
    Pipeline pipeline;
    ptx::Mbarrier summed[kTurns];     // `totals` are there, ...
    ptx::Mbarrier published[kTurns];  // ... `within`, ...
    ptx::Mbarrier known[kTurns];      // ... `before`
    ptx::Mbarrier drawn;
    ptx::Mbarrier carried[kServers];  // `carry` is there, ...
    ptx::Mbarrier taken[kServers];    // ... and has been read
  };
  // Where an item lies.
  struct Place {
    uint32_t line;
    int64_t first;  // vector
    RowOf<Monoid> row;

    __device__ __forceinline__ Place(const Arguments& a, uint32_t item)
        : line(line_of(a, item)),
          first((item - line * a.tiles) * Shape::kTile),
          row(a.rows, line) {}
    __device__ __forceinline__ static uint32_t line_of(const Arguments& a, uint32_t item) {
      return item < a.tiles ? 0 : item / a.tiles;
    }
    // Where `stage` of the ring has vector 0 of the row, in vectors.
    __device__ __forceinline__ int64_t zero(const Arguments& a, int stage) const {
      return stage * Shape::kTile - Tile::lowest(row, first, a.vectors, kScanners);
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.pipeline.init(kWarps + 2);  // who scans, publishes and receives
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        ptx::mbarrier_init(shared.summed[turn], kWarps);
        ptx::mbarrier_init(shared.published[turn], kWarpSize);
        ptx::mbarrier_init(shared.known[turn], 2 * kWarpSize);
      }
      ptx::mbarrier_init(shared.drawn, 1);
#pragma unroll
      for (int server = 0; server < kServers; ++server) {
        ptx::mbarrier_init(shared.carried[server], 1);
        ptx::mbarrier_init(shared.taken[server], kWarpSize);
      }
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() < kWarps) {
      scan_tiles(shared, a);
    } else if (warp_index() == kWarps) {
      if (lane_index() == 0) fetch(shared, a);
    } else if (warp_index() == kWarps + 1) {
      publish(shared, a);
    } else if (warp_index() == kWarps + 2) {
      receive(shared, a);
    } else if (a.tiles > 1) {
      serve(shared, a, warp_index() - kWarps - 3);
    }
  }

 private:
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    bool begun = false;
    for (Position at;; at.advance()) {
      shared.pipeline.wait_free(at);
      const auto item = static_cast<uint32_t>(ptx::atom_global_add(a.next, 1));
      if (!begun) {
        begun = true;
        shared.first_item[0] = item;
        ptx::mbarrier_arrive(shared.drawn);
      }
      shared.item[at.stage] = item;
      if (item >= a.items) {
        shared.pipeline.fill(at.stage);
        // Each block draws one number past the last tile.
        if (item + 1 == a.items + static_cast<uint32_t>(grid_blocks())) {
          ptx::atom_global_exch(a.next, 0);
        }
        return;
      }
      const Place place(a, item);
      const auto whole = place.row.whole(place.first, Shape::kTile, a.vectors);
      const auto bytes = static_cast<uint32_t>((whole.end - whole.begin) * 16);
      ptx::Mbarrier& full = shared.pipeline.full[at.stage];
      ptx::mbarrier_arrive_expect_tx(full, bytes);
      if (bytes == 0) continue;
      ptx::bulk_load(shared.parts.pointer((place.zero(a, at.stage) + whole.begin) * kWidth),
                     place.row.x - place.row.head + whole.begin * kWidth, bytes, full);
    }
  }

  // One warp's part of the tiles.
  __device__ __forceinline__ static void scan_tiles(SharedStorage& shared, const Arguments& a) {
    Position ahead;
    Position at;
    Turn ahead_turn;
    Turn turn;
    bool more = true;
    for (int i = 0; i < Shape::kAhead && more; ++i) more = add_up(shared, a, ahead, ahead_turn);
    for (;; turn.advance(), at.advance()) {
      if (more) more = add_up(shared, a, ahead, ahead_turn);
      const uint32_t item = shared.item[at.stage];
      if (item >= a.items) break;
      const Place place(a, item);
      Tile tile = part(shared, a, place, at.stage);
      tile.load();
      const Accumulator scanned = warp::inclusive_scan(tile.fold(a.monoid), Monoid::merge);
      const Accumulator below = warp::shift_up(scanned, Monoid::none());
      ptx::mbarrier_wait_parity(shared.known[turn.stage], turn.parity);
      const Accumulator before = shared.before[turn.stage * kWarps + warp_index()];
      tile.store(a.monoid, place.row, Monoid::merge(before, below));
      tile.write_edges(place.row);
      ptx::fence_proxy_async();
      ptx::syncwarp();
      if (lane_index() == 0) {
        take_away(shared, a, place, at.stage);
        ptx::bulk_wait_group_read<0>();
        shared.pipeline.release(at.stage);
      }
    }
  }
  __device__ __forceinline__ static Tile part(SharedStorage& shared, const Arguments& a,
                                              const Place& place, int stage) {
    return Tile(place.row, place.first, a.vectors, thread_index(), kScanners, shared.parts.span(),
                stage * kTile);
  }
  // Gives the total of the warp's part of the next tile, once it has landed; false if there is
  // none.
  __device__ __forceinline__ static bool add_up(SharedStorage& shared, const Arguments& a,
                                                Position& at, Turn& turn) {
    shared.pipeline.wait(at);
    const uint32_t item = shared.item[at.stage];
    if (item >= a.items) return false;
    const Place place(a, item);
    Tile tile = part(shared, a, place, at.stage);
    tile.add_edges(a.monoid, place.row);
    tile.load();
    const Accumulator total = warp::all_reduce(tile.fold(a.monoid), Monoid::merge);
    if (lane_index() == 0) {
      shared.totals[turn.stage * kWarps + warp_index()] = total;
      ptx::mbarrier_arrive(shared.summed[turn.stage]);
    }
    at.advance();
    turn.advance();
    return true;
  }
  // A copy of the results of the warp's part.
  __device__ __forceinline__ static void take_away(SharedStorage& shared, const Arguments& a,
                                                   const Place& place, int stage) {
    constexpr int kSpan = Shape::kVectors * kWarpSize;
    const auto whole = place.row.whole(place.first + warp_index() * kSpan, kSpan, a.vectors);
    if (whole.begin != whole.end) {
      ptx::bulk_store(place.row.y - place.row.head + whole.begin * kWidth,
                      shared.parts.pointer((place.zero(a, stage) + whole.begin) * kWidth),
                      static_cast<uint32_t>((whole.end - whole.begin) * 16));
    }
    ptx::bulk_commit_group();
  }

  __device__ __forceinline__ static uint64_t* total_of(const Arguments& a, uint32_t item) {
    return a.words + int64_t{item} * Words::kWords;
  }
  __device__ __forceinline__ static uint64_t* answer_to(const Arguments& a, uint32_t item) {
    return a.words + (int64_t{a.items} + item) * Words::kWords;
  }
  // The item in a stage, for warps that do not read its elements.
  __device__ __forceinline__ static uint32_t item_of(SharedStorage& shared, const Position& at) {
    shared.pipeline.wait(at);
    const uint32_t item = shared.item[at.stage];
    ptx::syncwarp();
    if (lane_index() == 0) shared.pipeline.release(at.stage);
    return item;
  }
  __device__ __forceinline__ static void publish(SharedStorage& shared, const Arguments& a) {
    Turn turn;
    for (Position at;; at.advance(), turn.advance()) {
      const uint32_t item = item_of(shared, at);
      if (item >= a.items) return;
      ptx::mbarrier_wait_parity(shared.summed[turn.stage], turn.parity);
      const int mine = turn.stage * kWarps + lane_index();
      Accumulator own = Monoid::none();
      if (lane_index() < kWarps) own = shared.totals[mine];
      const Accumulator scanned = warp::inclusive_scan(own, Monoid::merge);
      if (lane_index() == kWarps - 1 && a.tiles > 1) Words::publish(total_of(a, item), scanned);
      const Accumulator below = warp::shift_up(scanned, Monoid::none());
      ptx::mbarrier_wait_parity(shared.known[turn.stage], turn.parity ^ 1);  // received, the last
      if (lane_index() < kWarps) shared.within[mine] = below;
      ptx::mbarrier_arrive(shared.published[turn.stage]);
      ptx::mbarrier_arrive(shared.known[turn.stage]);  // and `totals` may change
    }
  }
  __device__ __forceinline__ static void receive(SharedStorage& shared, const Arguments& a) {
    Turn turn;
    for (Position at;; at.advance(), turn.advance()) {
      const uint32_t item = item_of(shared, at);
      if (item >= a.items) return;
      Accumulator prefix = Monoid::none();
      if (a.tiles > 1) {
        if (lane_index() == 0) prefix = Words::taken(answer_to(a, item));
        prefix = warp::shuffle(prefix, 0);
      }
      ptx::mbarrier_wait_parity(shared.summed[turn.stage],
                                turn.parity);  // the last `before` is read
      ptx::mbarrier_wait_parity(shared.published[turn.stage], turn.parity);
      if (lane_index() < kWarps) {
        const int mine = turn.stage * kWarps + lane_index();
        const Accumulator within = shared.within[mine];
        shared.before[mine] = Monoid::merge(prefix, within);
      }
      ptx::mbarrier_arrive(shared.known[turn.stage]);
    }
  }

  // In the block that has drawn the first tile, which runs whatever others do. A warp takes every
  // kServers-th group of 32 items, a lane an item; what lies before a group comes from the warp
  // that has the one before.
  __device__ __forceinline__ static void serve(SharedStorage& shared, const Arguments& a,
                                               int server) {
    ptx::mbarrier_wait_parity(shared.drawn, 0);
    const uint32_t drawn = shared.first_item[0];
    if (drawn != 0) return;
    const int next = server + 1 == kServers ? 0 : server + 1;
    // The first group has nothing before it, so that server 0 is handed a value less.
    uint32_t parity = server == 0 ? 1 : 0;
    uint32_t handed_parity = 0;
    for (auto group = static_cast<uint32_t>(server); group * kWarpSize < a.items;
         group += kServers, parity ^= 1, handed_parity ^= 1) {
      const uint32_t item = group * kWarpSize + static_cast<uint32_t>(lane_index());
      const uint32_t nth = item - Place::line_of(a, item) * a.tiles;  // of its row
      const bool is_item = item < a.items;
      const int count = ptx::count_bits(ptx::vote_sync_ballot(kFullMask, is_item));
      Accumulator own = Monoid::none();
      Accumulator carry = Monoid::none();
      bool is_there = false;
      bool is_carried = group == 0;
      // Items are answered as soon as all before them are there: those behind may not have begun.
      for (int done = 0; done < count;) {
        if (is_item && !is_there) is_there = Words::take(total_of(a, item), own);
        if (!is_carried) {
          const bool arrived = ptx::mbarrier_try_wait_parity(shared.carried[server], parity);
          is_carried = ptx::vote_sync_all(kFullMask, arrived);
          if (is_carried) {
            carry = shared.carry[server];
            ptx::mbarrier_arrive(shared.taken[server]);
          }
        }
        const uint32_t missing = ~ptx::vote_sync_ballot(kFullMask, is_there);
        const int ready = missing == 0 ? kWarpSize : ptx::lowest_bit(missing);
        if (!is_carried || ready <= done) continue;
        const Answer answer(own, carry, nth);
        if (ready == kWarpSize && lane_index() == kWarpSize - 1) {
          ptx::mbarrier_wait_parity(shared.taken[next], handed_parity ^ 1);
          shared.carry[next] = answer.with;
          ptx::mbarrier_arrive(shared.carried[next]);
        }
        if (lane_index() >= done && lane_index() < ready) {
          Words::publish(answer_to(a, item), answer.before);
        }
        done = ready;
      }
    }
  }
  // What lies before an item in its row, and with it, where `own` are the totals of 32 items and
  // `carry` lies before these: of a lane, whatever those above it hold.
  struct Answer {
    Accumulator before;
    Accumulator with;

    __device__ __forceinline__ Answer(const Accumulator& own, const Accumulator& carry,
                                      uint32_t nth) {
      const auto lane = static_cast<uint32_t>(lane_index());
      with = own;
#pragma unroll
      for (uint32_t distance = 1; distance < kWarpSize; distance *= 2) {
        const Accumulator lower = warp::shuffle_up(with, static_cast<int>(distance));
        if (lane >= distance && nth >= distance) with = Monoid::merge(lower, with);
      }
      before = warp::shuffle_up(with, 1);
      if (lane == 0 || nth == 0) before = Monoid::none();
      if (nth > lane) {  // its row began before the 32
        before = Monoid::merge(carry, before);
        with = Monoid::merge(carry, with);
      }
    }
  };
};

template <class Shape>
struct Server {
  template <class Monoid>
  static int64_t tiles_of(const Scan& call) {
    return divide_up(vectors_of<Monoid>(call), Shape::kTile);
  }
  static bool supports(const Scan& call, Why& why) {
    const int64_t bytes = call.count * static_cast<int64_t>(size_of(call.dtype)) + 16;
    constexpr int64_t kMost = int64_t{1} << 31;
    return rows_supported(call, why) &&
           why.unless(call.dtype == call.output_dtype,
                      "results take the places of elements, and have to be as wide") &&
           why.unless(
               divide_up(bytes, 16 * Shape::kTile) < kMost / std::max(call.lines, int64_t{1}),
               "takes fewer than 2^31 tiles");
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      const int64_t tiles = tiles_of<Monoid>(call);
      const int64_t words = tiles == 1 ? 0
                                       : 2 * tiles * call.lines *
                                             thread::Flagged<typename Monoid::Accumulator>::kWords;
      const size_t bytes = static_cast<size_t>(1 + words) * sizeof(uint64_t);
      workspace = {.bytes = bytes, .zeroed = bytes};
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      if constexpr (std::is_same_v<typename Monoid::Element, typename Monoid::Result>) {
        launch_on(call, monoid, context);
      }
    });
  }
  template <class Monoid>
  static void launch_on(const Scan& call, const Monoid& monoid, const Context& context) {
    using Kernel = ServerKernel<Monoid, Shape>;
    const int64_t tiles = tiles_of<Monoid>(call);
    const int64_t items = tiles * call.lines;
    auto* const next = static_cast<uint64_t*>(context.workspace);
    Grid grid{.blocks = 1, .threads = Kernel::kThreads, .cluster = 1};
    grid.blocks = std::min(items, resident_clusters<Kernel>(grid));
    launch<Kernel>(grid, context.stream,
                   {monoid, rows_of<Monoid>(call), vectors_of<Monoid>(call),
                    static_cast<uint32_t>(tiles), static_cast<uint32_t>(items), next, next + 1});
  }
};

}  // namespace ws::scan
#endif
