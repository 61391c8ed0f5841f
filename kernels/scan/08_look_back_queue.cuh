// Idea: a block an SM stays and draws the next tile from a counter; a warp keeps bulk copies of
// tiles to come in flight, one publishes totals, some look back. The others add up a tile as soon
// as it has landed, and scan and write one that landed some tiles ago and waits in shared memory.
// From look_back: reading goes on while blocks wait for one another, and a tile's total is known
// some tiles before anybody needs it.
// Traffic: one read, one write, two passes through shared memory.
// Limits: rows whose elements lie side by side.
// Long: kinds of warps, and what passes between them, which is what the rung is about.
#pragma once

#include "kernels/scan/look_back.hpp"
#include "kernels/scan/tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/tile/pipeline.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// kWarps warps have kVectors vectors a lane of a tile each; a copy fetches the parts of
// kWarpsOfStage of them. kTiles tiles are in shared memory; they are added up kAhead before they
// are scanned.
template <int kWarps_, int kVectors_, int kWarpsOfStage_, int kTiles_, int kAhead_, int kLookers_>
struct LookBackQueueShape {
  static constexpr int kWarps = kWarps_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kWarpsOfStage = kWarpsOfStage_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kLookers = kLookers_;
  static_assert(kAhead < kTiles && kLookers <= kAhead + 1);
  static constexpr int64_t kTile = int64_t{kWarps} * kVectors * kWarpSize;  // vectors
};

template <class Monoid, class Shape>
struct LookBackQueueKernel {
  using Element = typename Monoid::Element;
  using Accumulator = typename Monoid::Accumulator;
  static constexpr int kWarps = Shape::kWarps;
  // Those who scan, and the warps that fetch, publish and look back, which takes longest.
  static constexpr int kLookers = Shape::kLookers;
  static constexpr int kThreads = (kWarps + 2 + kLookers) * kWarpSize;
  static constexpr Arch kArch = Arch::kSm90;
  using Tile = RowTile<Monoid, Shape::kVectors>;
  static constexpr int kStageVectors = Shape::kWarpsOfStage * Tile::kSpan;
  static constexpr int kStagesOfTile = kWarps / Shape::kWarpsOfStage;
  static constexpr int kStages = Shape::kTiles * kStagesOfTile;
  using Pipeline = tile::Pipeline<kStages>;
  static constexpr int kTurns = Shape::kAhead + 1;  // tiles whose totals are on their way
  using Turn = tile::PipelinePosition<kTurns>;
  struct Arguments {
    Monoid monoid;
    Rows<Monoid> rows;
    int64_t vectors;  // of a row
    uint64_t items;   // tiles of all rows
    LookBack<Accumulator> look_back;
    uint64_t* next;  // 0 before and after
  };
  struct SharedStorage {
    SharedArray<Element, kStages * kStageVectors * Tile::kWidth, 128> parts;
    SharedArray<uint64_t, kStages> item;
    SharedArray<uint64_t, kTurns> total_of;            // which tile's they are
    SharedArray<Accumulator, kTurns * kWarps> totals;  // of warps, ...
    SharedArray<Accumulator, kTurns * kWarps> before;  // ... what lies before each, ...
    SharedArray<Accumulator, kTurns> total;            // ... and the tile's
    Pipeline pipeline;
    ptx::Mbarrier summed[kTurns];     // `totals` are there, ...
    ptx::Mbarrier published[kTurns];  // ... `before`, of the tile alone, and `total`, ...
    ptx::Mbarrier known[kTurns];      // ... `before`, of the row
  };
  // Where tile `item` lies.
  struct Place {
    uint32_t line;
    int nth;  // of the row's tiles
    int64_t first;
    RowOf<Monoid> row;

    __device__ __forceinline__ Place(const Arguments& a, uint64_t item)
        : line(static_cast<uint32_t>(item) / static_cast<uint32_t>(a.look_back.tiles)),
          nth(static_cast<int>(static_cast<uint32_t>(item) -
                               line * static_cast<uint32_t>(a.look_back.tiles))),
          first(nth * Shape::kTile),
          row(a.rows, line) {}
    // What a copy brings of a stage.
    __device__ __forceinline__ auto whole(const Arguments& a, int stage) const {
      return row.whole(first + stage * kStageVectors, kStageVectors, a.vectors);
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.pipeline.init(Shape::kWarpsOfStage);
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        ptx::mbarrier_init(shared.summed[turn], kWarps);
        ptx::mbarrier_init(shared.published[turn], kWarpSize);
        ptx::mbarrier_init(shared.known[turn], kWarpSize);
      }
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() < kWarps) {
      scan_tiles(shared, a);
    } else if (warp_index() == kWarps) {
      publish(shared, a);
    } else if (warp_index() == kWarps + 1) {
      if (lane_index() == 0) fetch(shared, a);
    } else {
      look_back(shared, a);
    }
  }

  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    for (typename Pipeline::Position at;;) {
      uint64_t item = 0;
#pragma unroll
      for (int s = 0; s < kStagesOfTile; ++s, at.advance()) {
        shared.pipeline.wait_free(at);
        if (s == 0) item = ptx::atom_global_add(a.next, 1);
        shared.item[at.stage] = item;
        if (item >= a.items) {
          shared.pipeline.fill(at.stage);
          continue;
        }
        const Place place(a, item);
        const auto whole = place.whole(a, s);
        const auto bytes = static_cast<uint32_t>((whole.end - whole.begin) * 16);
        ptx::Mbarrier& full = shared.pipeline.full[at.stage];
        ptx::mbarrier_arrive_expect_tx(full, bytes);
        if (bytes == 0) continue;
        ptx::bulk_load(shared.parts.pointer(at.stage * kStageVectors * Tile::kWidth),
                       place.row.x - place.row.head + whole.begin * Tile::kWidth, bytes, full);
      }
      if (item >= a.items) {
        // Each block draws one number past the last tile.
        if (item + 1 == a.items + static_cast<uint64_t>(grid_blocks())) {
          ptx::atom_global_exch(a.next, 0);
        }
        return;
      }
    }
  }

  // One warp's part of the tiles.
  __device__ __forceinline__ static void scan_tiles(SharedStorage& shared, const Arguments& a) {
    typename Pipeline::Position ahead = first_stage();
    typename Pipeline::Position at = first_stage();
    Turn ahead_turn;
    Turn turn;
    bool more = true;
    for (int i = 0; i < Shape::kAhead && more; ++i) more = add_up(shared, a, ahead, ahead_turn);
    for (;; turn.advance(), step(at)) {
      if (more) more = add_up(shared, a, ahead, ahead_turn);
      const uint64_t item = shared.item[at.stage];
      if (item >= a.items) return;
      ptx::mbarrier_wait_parity(shared.known[turn.stage], turn.parity);
      const Accumulator before = shared.before[turn.stage * kWarps + warp_index()];
      Tile tile;
      const Place place = load(tile, shared, a, item, at.stage);
      ptx::syncwarp();
      if (lane_index() == 0) shared.pipeline.release(at.stage);
      tile.scan(a.monoid);
      tile.store(a.monoid, place.row, before);
    }
  }
  // Gives the total of the warp's part of the next tile, once it has landed; false if there is
  // none.
  __device__ __forceinline__ static bool add_up(SharedStorage& shared, const Arguments& a,
                                                typename Pipeline::Position& at, Turn& turn) {
    shared.pipeline.wait(at);
    const uint64_t item = shared.item[at.stage];
    Accumulator total = Monoid::none();
    if (item < a.items) {
      Tile tile;
      load(tile, shared, a, item, at.stage);
      total = tile.total(a.monoid);
    }
    if (lane_index() == 0) {
      shared.totals[turn.stage * kWarps + warp_index()] = total;
      if (warp_index() == 0) shared.total_of[turn.stage] = item;
      ptx::mbarrier_arrive(shared.summed[turn.stage]);
    }
    step(at);
    turn.advance();
    return item < a.items;
  }
  __device__ __forceinline__ static typename Pipeline::Position first_stage() {
    return {.stage = warp_index() / Shape::kWarpsOfStage, .parity = 0};
  }
  __device__ __forceinline__ static void step(typename Pipeline::Position& at) {
    at.stage += kStagesOfTile;
    if (at.stage >= kStages) {
      at.stage -= kStages;
      at.parity ^= 1;
    }
  }
  __device__ __forceinline__ static Place load(Tile& tile, SharedStorage& shared,
                                               const Arguments& a, uint64_t item, int stage) {
    const Place place(a, item);
    const int of_tile = warp_index() / Shape::kWarpsOfStage;
    const int64_t begin = place.whole(a, of_tile).begin * Tile::kWidth - place.row.head;
    tile.load(a.monoid, place.row, place.first + warp_index() * Tile::kSpan, a.vectors,
              [&](int64_t i) {
                return std::bit_cast<Packed<Element>>(shared.parts.template load<Tile::kWidth>(
                    stage * kStageVectors * Tile::kWidth + (i - begin)));
              });
    return place;
  }

  __device__ __forceinline__ static void publish(SharedStorage& shared, const Arguments& a) {
    for (Turn turn;; turn.advance()) {
      ptx::mbarrier_wait_parity(shared.summed[turn.stage], turn.parity);
      const uint64_t item = shared.total_of[turn.stage];
      if (item < a.items) {
        Accumulator mine = Monoid::none();
        if (lane_index() < kWarps) mine = shared.totals[turn.stage * kWarps + lane_index()];
        const Accumulator scanned = warp::inclusive_scan(mine, Monoid::merge);
        if (lane_index() == kWarps - 1) {
          shared.total[turn.stage] = scanned;
          if (a.look_back.tiles > 1) {
            const Place place(a, item);
            a.look_back.tell(place.line, place.nth, scanned);
          }
        }
        const Accumulator before = warp::shift_up(scanned, Monoid::none());
        if (lane_index() < kWarps) shared.before[turn.stage * kWarps + lane_index()] = before;
      }
      ptx::mbarrier_arrive(shared.published[turn.stage]);
      if (item >= a.items) return tell_the_end(shared, a, turn);
    }
  }
  // ... which one of those who look back has been told, to the others.
  __device__ __forceinline__ static void tell_the_end(SharedStorage& shared, const Arguments& a,
                                                      Turn turn) {
    for (int i = 1; i < kLookers; ++i) {
      turn.advance();
      ptx::mbarrier_wait_parity(shared.known[turn.stage], turn.parity ^ 1);
      if (lane_index() == 0) shared.total_of[turn.stage] = a.items;
      ptx::mbarrier_arrive(shared.published[turn.stage]);
    }
  }
  __device__ __forceinline__ static void advance(Turn& turn) {
#pragma unroll
    for (int i = 0; i < kLookers; ++i) turn.advance();
  }
  // Of every kLookers-th tile.
  __device__ __forceinline__ static void look_back(SharedStorage& shared, const Arguments& a) {
    Turn turn;
    for (int i = kWarps + 2; i < warp_index(); ++i) turn.advance();
    for (;; advance(turn)) {
      ptx::mbarrier_wait_parity(shared.published[turn.stage], turn.parity);
      const uint64_t item = shared.total_of[turn.stage];
      if (item >= a.items) return;
      const Place place(a, item);
      const bool alone = a.look_back.tiles == 1;  // in its row
      Accumulator prefix = Monoid::none();
      if (!alone) {
        const Accumulator total = shared.total[turn.stage];
        prefix =
            a.look_back.seen_by_warp(place.line, place.nth, total, Monoid::none(), Monoid::merge);
      }
      if (lane_index() < kWarps) {
        const int mine = turn.stage * kWarps + lane_index();
        const Accumulator before = shared.before[mine];
        shared.before[mine] = Monoid::merge(prefix, before);
      }
      ptx::mbarrier_arrive(shared.known[turn.stage]);
      if (!alone) {
        a.look_back.leave(place.line, place.nth, lane_index(), kWarpSize, [] { ptx::syncwarp(); });
      }
    }
  }
};

template <class Shape>
struct LookBackQueueRung {
  static bool supports(const Scan& call, Why& why) {
    return look_back_supports(call, 16 * Shape::kTile, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      const size_t bytes =
          sizeof(uint64_t) +
          look_back_plan<Monoid>(call, vectors_of<Monoid>(call), Shape::kTile).workspace().bytes;
      workspace = {.bytes = bytes, .zeroed = bytes};
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      using Kernel = LookBackQueueKernel<Monoid, Shape>;
      const LookBackPlan plan =
          look_back_plan<Monoid>(call, vectors_of<Monoid>(call), Shape::kTile);
      auto* const next = static_cast<uint64_t*>(context.workspace);
      const int64_t items = plan.lines * plan.tiles;
      Grid grid{.blocks = 1, .threads = Kernel::kThreads, .cluster = 1};
      grid.blocks = std::min(items, resident_clusters<Kernel>(grid));
      launch<Kernel>(grid, context.stream,
                     {monoid,
                      rows_of<Monoid>(call),
                      vectors_of<Monoid>(call),
                      static_cast<uint64_t>(items),
                      {plan, next + 1},
                      next});
    });
  }
};

}  // namespace ws::scan
#endif
