// Idea: blocks that stay draw the next rows from a counter; a warp keeps bulk copies of rows to
// come in flight, and lanes have 128 bytes of a row side by side, which they scan where they lie in
// shared memory; from there bulk copies take the results (runs.hpp).
// From look_back_queue: a row is a block's or a few lanes', so that nobody looks back; a scan by
// shuffles is one for 128 bytes of each lane, not for 16.
// Traffic: one read, one write, one pass through shared memory.
// Limits: rows whose elements lie side by side; results as wide as elements; few rows idle SMs.
// Long: how rows of any length share a block's lanes, and how copies follow, is on one page.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/scan/runs.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bulk.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/tile/pipeline.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// kWarps warps have kVectors vectors a lane; kStages parts of rows are in shared memory.
template <int kWarps_, int kVectors_, int kStages_, int kMinBlocks_>
struct RowQueueShape {
  static constexpr int kWarps = kWarps_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kStages = kStages_;
  static constexpr int kMinBlocks = kMinBlocks_;  // an SM holds
};

template <class Monoid, class Shape>
struct RowQueueKernel {
  using Element = typename Monoid::Element;
  using Accumulator = typename Monoid::Accumulator;
  using Tile = Runs<Monoid, Shape::kVectors>;
  using Pipeline = tile::Pipeline<Shape::kStages>;
  using Position = typename Pipeline::Position;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWarps = Shape::kWarps;
  static constexpr int kLanes = kWarps * kWarpSize;
  static constexpr int kThreads = kLanes + kWarpSize;
  static constexpr int kMinBlocks =
      Shape::kMinBlocks > 2 && kTakesRegisters<Monoid> ? 2 : Shape::kMinBlocks;
  static constexpr int kVectors = Shape::kVectors;
  static constexpr int kWidth = Tile::kWidth;
  static constexpr int kPart = kLanes * kVectors * kWidth;  // elements of a stage
  struct Arguments {
    Monoid monoid;
    Rows<Monoid> rows;
    int64_t vectors;  // of a row
    int lanes;        // of a row, a power of two
    int parts;        // of a row
    bool dense;       // rows fill their lanes, a warp's at most, and lie one behind the other
    uint64_t items;   // as many rows as kLanes have
    uint64_t* next;   // 0 before and after
  };
  struct SharedStorage {
    SharedArray<Element, Shape::kStages * kPart, 128> parts;
    SharedArray<uint64_t, Shape::kStages> item;
    SharedArray<Accumulator, 2 * kWarps> totals;  // of warps, in two turns
    Pipeline pipeline;
  };
  // A row's part `part` as `lanes` have it: the nth of a stage.
  struct Place {
    RowOf<Monoid> row;
    int64_t first;  // vector
    int at;         // of its first lane's vectors, in a stage

    __device__ __forceinline__ Place(const Arguments& a, uint64_t item, int nth, int part)
        : row(a.rows, static_cast<int64_t>(item) * (kLanes / a.lanes) + nth),
          first(int64_t{part} * a.lanes * kVectors),
          at(nth * a.lanes * Tile::kRun) {}
  };
  // What one copy moves of an item's part: what `lanes` lanes of the block have, from `lane` on.
  struct Piece {
    int64_t x;  // elements from the tensors' first
    int64_t y;
    int at;  // in a stage
    uint32_t bytes;

    __device__ __forceinline__ Piece(const Arguments& a, uint64_t item, int part, int lane,
                                     int lanes) {
      if (a.dense) {
        at = lane * Tile::kRun;
        x = y = static_cast<int64_t>(item) * kPart + at;
        const int64_t left = a.rows.rows * a.rows.count - x;
        const int64_t most = int64_t{lanes} * Tile::kRun;
        bytes = static_cast<uint32_t>((left < 0 ? 0 : left < most ? left : most) * sizeof(Element));
      } else {
        const int nth = lane / a.lanes;
        const Place place(a, item, nth, part);
        const auto whole = place.row.whole(place.first + int64_t{lane - nth * a.lanes} * kVectors,
                                           int64_t{lanes} * kVectors, a.vectors);
        const int64_t begin = whole.begin * kWidth;
        x = place.row.x - a.rows.x + begin - place.row.head;
        y = place.row.y - a.rows.y + begin - place.row.head;
        at = place.at +
             static_cast<int>(begin -
                              Tile::lowest(place.row, place.first, a.vectors, a.lanes) * kWidth);
        bytes = static_cast<uint32_t>((whole.end - whole.begin) * 16);
      }
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.pipeline.init(kWarps);
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() == kWarps) {
      fetch(shared, a);
    } else {
      scan_rows(shared, a);
    }
  }

 private:
  // A warp's lanes copy a row's part each.
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    Position at;
    for (;;) {
      uint64_t item = 0;
      for (int part = 0; part < a.parts; ++part, at.advance()) {
        shared.pipeline.wait_free(at);
        if (part == 0) {
          if (lane_index() == 0) item = ptx::atom_global_add(a.next, 1);
          item = warp::shuffle(item, 0);
          if (item >= a.items) break;
        }
        const int lanes = a.dense ? kLanes : a.lanes;
        uint32_t bytes = 0;
        for (int lane = lane_index() * lanes; lane < kLanes; lane += kWarpSize * lanes) {
          bytes += Piece(a, item, part, lane, lanes).bytes;
        }
        bytes = warp::all_reduce(bytes, [](uint32_t x, uint32_t y) { return x + y; });
        ptx::Mbarrier& full = shared.pipeline.full[at.stage];
        if (lane_index() == 0) {
          shared.item[at.stage] = item;
          ptx::mbarrier_arrive_expect_tx(full, bytes);
        }
        ptx::syncwarp();
        for (int lane = lane_index() * lanes; lane < kLanes; lane += kWarpSize * lanes) {
          const Piece piece(a, item, part, lane, lanes);
          if (piece.bytes == 0) continue;
          ptx::bulk_load(shared.parts.pointer(at.stage * kPart + piece.at), a.rows.x + piece.x,
                         piece.bytes, full);
        }
      }
      if (item < a.items) continue;
      if (lane_index() == 0) {
        shared.item[at.stage] = item;
        shared.pipeline.fill(at.stage);
        // Each block draws one number past the last rows.
        if (item + 1 == a.items + static_cast<uint64_t>(grid_blocks())) {
          ptx::atom_global_exch(a.next, 0);
        }
      }
      return;
    }
  }

  __device__ __forceinline__ static void scan_rows(SharedStorage& shared, const Arguments& a) {
    const int nth = thread_index() / a.lanes;
    const int lane = thread_index() - nth * a.lanes;
    const int warps = a.lanes / kWarpSize;  // of a row; 0 of rows of fewer lanes
    // The first lane of a warp, or of each of its rows, has the results written.
    const int store_lanes = a.dense || warps > 0 ? kWarpSize : a.lanes;
    const bool stores = thread_index() % store_lanes == 0;
    int part = 0;
    int turn = 0;
    int written = -1;  // the last part's stage, which a copy still reads
    Accumulator carry = Monoid::none();
    for (Position at;; at.advance()) {
      shared.pipeline.wait(at);
      const uint64_t item = shared.item[at.stage];
      if (item >= a.items) break;
      const Place place(a, item, nth, part);
      Tile tile(place.row, place.first, a.vectors, lane, a.lanes, shared.parts.span(),
                at.stage * kPart + place.at);
      tile.add_edges(a.monoid, place.row);
      tile.load();
      const Accumulator scanned = scan_lanes(tile.fold(a.monoid), lane);
      Accumulator before = warp::shuffle_up(scanned, 1);
      if (lane % kWarpSize == 0) before = Monoid::none();
      Accumulator total = scanned;
      if (warps > 1) {
        if (lane_index() == kWarpSize - 1) shared.totals[turn * kWarps + warp_index()] = scanned;
        ptx::barrier_sync(1 + nth, a.lanes);
        Accumulator below = Monoid::none();
        total = Monoid::none();
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
          if (w >= warps) continue;
          const Accumulator of_warp = shared.totals[turn * kWarps + nth * warps + w];
          if (w == lane / kWarpSize) below = total;
          total = Monoid::merge(total, of_warp);
        }
        before = Monoid::merge(below, before);
        turn ^= 1;
      } else {
        total = warp::shuffle(scanned, kWarpSize - 1);
      }
      if (part > 0) before = Monoid::merge(carry, before);
      tile.store(a.monoid, place.row, before);
      tile.write_edges(place.row);
      ptx::fence_proxy_async();
      ptx::syncwarp();
      if (stores) {
        const Piece piece(a, item, part, thread_index(), store_lanes);
        if (piece.bytes > 0) {
          ptx::bulk_store(a.rows.y + piece.y, shared.parts.pointer(at.stage * kPart + piece.at),
                          piece.bytes);
        }
        ptx::bulk_commit_group();
        ptx::bulk_wait_group_read<1>();
      }
      ptx::syncwarp();
      if (lane_index() == 0 && written >= 0) shared.pipeline.release(written);
      written = at.stage;
      carry = part == 0 ? total : Monoid::merge(carry, total);
      if (++part == a.parts) part = 0;
    }
    if (stores) ptx::bulk_wait_group_read<0>();
  }
  // Among the lanes of a row that are in a warp.
  __device__ __forceinline__ static Accumulator scan_lanes(Accumulator value, int lane) {
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const Accumulator lower = warp::shuffle_up(value, distance);
      if (lane % kWarpSize >= distance) value = Monoid::merge(lower, value);
    }
    return value;
  }
};

// Rows that a stage of Short holds whole, and longer ones.
template <class Short, class Long>
struct RowQueue {
  static bool supports(const Scan& call, Why& why) {
    return rows_supported(call, why) &&
           why.unless(call.dtype == call.output_dtype,
                      "results take the places of elements, and have to be as wide");
  }
  static Workspace workspace(const Scan& /*call*/) {
    return {.bytes = sizeof(uint64_t), .zeroed = sizeof(uint64_t)};
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      if constexpr (std::is_same_v<typename Monoid::Element, typename Monoid::Result>) {
        constexpr int64_t kHeld = int64_t{Short::kWarps} * kWarpSize * Short::kVectors;
        if (vectors_of<Monoid>(call) <= kHeld) {
          launch_on<RowQueueKernel<Monoid, Short>>(call, monoid, context);
        } else {
          launch_on<RowQueueKernel<Monoid, Long>>(call, monoid, context);
        }
      }
    });
  }

 private:
  template <class Kernel, class Monoid>
  static void launch_on(const Scan& call, const Monoid& monoid, const Context& context) {
    const int64_t vectors = vectors_of<Monoid>(call);
    const auto runs = static_cast<uint64_t>(divide_up(vectors, int64_t{Kernel::kVectors}));
    const auto lanes = static_cast<int>(std::min<uint64_t>(std::bit_ceil(runs), Kernel::kLanes));
    const bool dense = lanes <= kWarpSize && call.pitch(0) == call.count &&
                       call.pitch(1) == call.count &&
                       call.count == int64_t{lanes} * Kernel::Tile::kRun &&
                       reinterpret_cast<uintptr_t>(call.input) % 16 == 0;
    const int64_t items = divide_up(call.lines, int64_t{Kernel::kLanes} / lanes);
    Grid grid{.blocks = 1, .threads = Kernel::kThreads, .cluster = 1};
    grid.blocks = std::min(items, resident_clusters<Kernel>(grid));
    launch<Kernel>(grid, context.stream,
                   {monoid, rows_of<Monoid>(call), vectors, lanes,
                    static_cast<int>(divide_up(vectors, int64_t{lanes} * Kernel::kVectors)), dense,
                    static_cast<uint64_t>(items), static_cast<uint64_t*>(context.workspace)});
  }
};

}  // namespace ws::scan
#endif
