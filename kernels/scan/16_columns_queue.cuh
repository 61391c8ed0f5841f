// Idea: blocks that stay draw tiles of columns, which tensor copies fetch ahead and take away;
// warps add up a tile's columns as soon as it has landed, and scan one that landed some tiles ago,
// for which threads of their own, one a column, have looked back meanwhile. From columns_staged: an
// SM that waits for totals reads on, as in look_back_queue. Traffic: as columns, two passes through
// shared memory. Limits: as columns; results as wide as elements. Long: kinds of warps, and what
// passes between them, which is what the rung is about.
#pragma once

#include "kernels/scan/11_columns.cuh"
#include "warpsmith/device_facts.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/tile/pipeline.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// kWarps warps have kRows rows a thread; kTiles tiles are in shared memory, and are added up kAhead
// before they are scanned; kLookers sets of threads look back, a tile in turn.
template <int kWarps_, int kRows_, int kTiles_, int kAhead_, int kLookers_>
struct ColumnsQueueShape {
  static constexpr int kWarps = kWarps_;
  static constexpr int kRows = kRows_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kAhead = kAhead_;
  static constexpr int kLookers = kLookers_;
  // A tile that is written in place keeps it until the next one is scanned.
  static_assert(kAhead + 1 < kTiles && kLookers <= kAhead + 1);
};

template <class Monoid, class Shape>
struct ColumnsQueueKernel {
  using Element = typename Monoid::Element;
  using Accumulator = typename Monoid::Accumulator;
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  static_assert(std::is_same_v<Element, typename Monoid::Result>,
                "results take the places of elements");
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWarps = Shape::kWarps;
  static constexpr int kRows = Shape::kRows;
  static constexpr int kLookers = Shape::kLookers;
  static constexpr int kWidth = row::kWidest<Element>;
  static constexpr int kColumns = kWarpSize * kWidth;  // of a tile, at most
  static constexpr int kScanners = kWarps * kWarpSize;
  static_assert(kColumns <= kScanners);
  static constexpr int kThreads = kScanners + kWarpSize + kLookers * kColumns;
  static constexpr int kBox = kWarpSize * kRows * kWidth;  // elements of a warp
  static constexpr int kTile = kWarps * kBox;
  using Pipeline = tile::Pipeline<Shape::kTiles>;
  using Position = typename Pipeline::Position;
  static constexpr int kTurns = Shape::kAhead + 1;  // tiles whose totals are on their way
  using Turn = tile::PipelinePosition<kTurns>;
  static constexpr int kTotals = kScanners * kWidth;
  struct Arguments : ColumnsArguments<Monoid> {
    ptx::TensorMap from;
    ptx::TensorMap to;
    uint64_t items;
    uint64_t* next;  // 0 before and after
  };
  struct SharedStorage {
    SharedArray<Element, Shape::kTiles * kTile, 128> parts;
    SharedArray<Accumulator, kTurns * kTotals> totals;   // [thread rows, columns] of a turn
    SharedArray<Accumulator, kTurns * kColumns> total;   // of a column
    SharedArray<Accumulator, kTurns * kColumns> prefix;  // what lies before the tile
    SharedArray<uint64_t, Shape::kTiles> item;
    SharedArray<uint64_t, kTurns> total_of;  // which tile's they are
    Pipeline pipeline;
    ptx::Mbarrier published[kTurns];  // `totals` lie before a thread row in its tile, `total` is
                                      // there, ...
    ptx::Mbarrier known[kTurns];      // ... and `prefix`
  };
  // Where tile `item` lies.
  struct Place {
    int64_t line;
    int tile;
    int column;  // of the matrix, the tile's first
    int row;     // its first in memory
    int matrix;

    __device__ __forceinline__ Place(const Arguments& a, uint64_t item_) {
      // Strips of a matrix side by side, then the next tile of each: chains go on together.
      const auto item = static_cast<uint32_t>(item_);
      const auto strips = static_cast<uint32_t>(a.strips);
      const uint32_t row_of_tiles = item / strips;
      const uint32_t strip = item - row_of_tiles * strips;
      const auto tiles = static_cast<uint32_t>(a.look_back.tiles);
      const uint32_t of_matrices = row_of_tiles / tiles;
      tile = static_cast<int>(row_of_tiles - of_matrices * tiles);
      matrix = static_cast<int>(of_matrices);
      line = int64_t{matrix} * a.strips + strip;
      column = static_cast<int>(strip) * a.across * kWidth;
      const int rows = kScanners / a.across * kRows;
      row = a.reverse ? static_cast<int>(a.rows - (int64_t{tile} + 1) * rows) : tile * rows;
    }
  };
  // A scanning thread's share of every tile.
  struct Share {
    int own;    // its first row's vector in a tile
    int pitch;  // from row to row
    int total;  // its in `totals` of a turn
    int lane;   // its columns'

    __device__ __forceinline__ explicit Share(const Arguments& a) {
      const int thread_row = thread_index() / a.across;
      const int last = kScanners / a.across - 1;
      lane = thread_index() - thread_row * a.across;
      pitch = a.across * kWidth;
      const int first = thread_row * kRows + (a.reverse ? kRows - 1 : 0);
      own = first * pitch + lane * kWidth;
      total = (a.reverse ? last - thread_row : thread_row) * pitch + lane * kWidth;
      if (a.reverse) pitch = -pitch;
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    if (thread_index() == 0) {
      shared.pipeline.init(kWarps);
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        ptx::mbarrier_init(shared.published[turn], kWarps);
        ptx::mbarrier_init(shared.known[turn], kColumns);
      }
      ptx::fence_mbarrier_init();
    }
    ptx::barrier_sync();
    if (warp_index() < kWarps) {
      scan_tiles(shared, a);
    } else if (warp_index() == kWarps) {
      if (lane_index() == 0) fetch(shared, a);
    } else {
      look_back(shared, a);
    }
  }

 private:
  __device__ __forceinline__ static int box_rows(const Arguments& a) {
    return kWarpSize / a.across * kRows;
  }
  __device__ __forceinline__ static void fetch(SharedStorage& shared, const Arguments& a) {
    ptx::prefetch_tensor_map(a.from);
    ptx::prefetch_tensor_map(a.to);
    for (Position at;; at.advance()) {
      shared.pipeline.wait_free(at);
      const uint64_t item = ptx::atom_global_add(a.next, 1);
      shared.item[at.stage] = item;
      if (item >= a.items) {
        shared.pipeline.fill(at.stage);
        // Each block draws one number past the last tile.
        if (item + 1 == a.items + static_cast<uint64_t>(grid_blocks())) {
          ptx::atom_global_exch(a.next, 0);
        }
        return;
      }
      const Place place(a, item);
      ptx::Mbarrier& full = shared.pipeline.full[at.stage];
      ptx::mbarrier_arrive_expect_tx(full, kTile * sizeof(Element));
      for (int w = 0; w < kWarps; ++w) {
        ptx::tensor_load_3d(shared.parts.pointer(at.stage * kTile + w * kBox), a.from, full,
                            place.column, place.row + w * box_rows(a), place.matrix);
      }
    }
  }

  __device__ __forceinline__ static void scan_tiles(SharedStorage& shared, const Arguments& a) {
    const Share share(a);
    Position ahead;
    Position at;
    Turn ahead_turn;
    Turn turn;
    int written = -1;  // the last tile's stage, from which copies still read
    bool more = true;
    for (int i = 0; i < Shape::kAhead && more; ++i) {
      more = add_up(shared, a, share, ahead, ahead_turn);
    }
    for (;; turn.advance(), at.advance()) {
      if (more) more = add_up(shared, a, share, ahead, ahead_turn);
      const uint64_t item = shared.item[at.stage];
      if (item >= a.items) break;
      ptx::mbarrier_wait_parity(shared.known[turn.stage], turn.parity);
      scan_tile(shared, a, share, Place(a, item), at.stage, turn.stage);
      if (lane_index() == 0) {
        ptx::bulk_wait_group_read<1>();
        if (written >= 0) shared.pipeline.release(written);
      }
      written = at.stage;
    }
    // One set of those who look back has been told the end.
    for (int i = 1; i < kLookers; ++i) {
      arrive(shared, ahead_turn, a.items);
      ahead_turn.advance();
    }
    if (lane_index() == 0) ptx::bulk_wait_group_read<0>();
  }
  __device__ __forceinline__ static void arrive(SharedStorage& shared, const Turn& turn,
                                                uint64_t item) {
    ptx::syncwarp();
    if (lane_index() != 0) return;
    if (warp_index() == 0) shared.total_of[turn.stage] = item;
    ptx::mbarrier_arrive(shared.published[turn.stage]);
  }
  // Publishes the totals of the next tile's columns, once it has landed; false if there is none.
  __device__ __forceinline__ static bool add_up(SharedStorage& shared, const Arguments& a,
                                                const Share& share, Position& at, Turn& turn) {
    shared.pipeline.wait(at);
    const uint64_t item = shared.item[at.stage];
    if (item < a.items) {
      const int own = at.stage * kTile + share.own;
      Vec<Accumulator, kWidth> sum;
      const Packed<Element> first = row_at(shared, own);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) sum[e] = a.monoid.lift(element(first, e));
#pragma unroll
      for (int r = 1; r < kRows; ++r) {
        const Packed<Element> x = row_at(shared, own + r * share.pitch);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          sum[e] = Monoid::merge(sum[e], a.monoid.lift(element(x, e)));
        }
      }
      store_accumulators(shared.totals, turn.stage * kTotals + share.total, sum);
      ptx::barrier_sync(1, kScanners);
      const int columns = a.across * kWidth;
      if (thread_index() < columns) {
        const Accumulator total =
            scan_column(shared, turn.stage * kTotals + thread_index(), columns);
        shared.total[turn.stage * kColumns + thread_index()] = total;
        if (a.look_back.tiles > 1) {
          const Place place(a, item);
          a.look_back.tell_column(place.line, place.tile, thread_index(), total);
        }
      }
    }
    arrive(shared, turn, item);
    at.advance();
    turn.advance();
    return item < a.items;
  }
  // Of a column: totals become what lies before each thread row.
  __device__ __forceinline__ static Accumulator scan_column(SharedStorage& shared, int first,
                                                            int columns) {
    constexpr int kBatch = 8;  // kScanners / a.across are at least as many
    Accumulator before = Monoid::none();
    for (int end = first + kTotals; first < end; first += kBatch * columns) {
      Accumulator own[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) own[i] = shared.totals[first + i * columns];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        shared.totals[first + i * columns] = before;
        before = Monoid::merge(before, own[i]);
      }
    }
    return before;
  }
  __device__ __forceinline__ static void scan_tile(SharedStorage& shared, const Arguments& a,
                                                   const Share& share, const Place& place,
                                                   int stage, int turn) {
    const auto prefix = accumulators(shared.prefix, turn * kColumns + share.lane * kWidth);
    auto running = accumulators(shared.totals, turn * kTotals + share.total);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) running[e] = Monoid::merge(prefix[e], running[e]);
    const int own = stage * kTile + share.own;
    if (a.exclusive) {
      scan_share<true>(shared, a, share, own, running);
    } else {
      scan_share<false>(shared, a, share, own, running);
    }
    ptx::fence_proxy_async();
    ptx::syncwarp();
    const int first = place.row + warp_index() * box_rows(a);
    if (first >= 0) {
      if (lane_index() == 0) {
        ptx::tensor_store_3d(a.to, place.column, first, place.matrix,
                             shared.parts.pointer(stage * kTile + warp_index() * kBox));
      }
    } else {
      store_rows(shared, a, share, place, own);
    }
    if (lane_index() == 0) ptx::bulk_commit_group();
  }
  template <bool kExclusive>
  __device__ __forceinline__ static void scan_share(SharedStorage& shared, const Arguments& a,
                                                    const Share& share, int own,
                                                    Vec<Accumulator, kWidth> running) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Packed<Element> x = row_at(shared, own + r * share.pitch);
      Vec<Lowered, kWidth> lowered;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const Accumulator with = Monoid::merge(running[e], a.monoid.lift(element(x, e)));
        lowered[e] = a.monoid.lower(kExclusive ? running[e] : with);
        running[e] = with;
      }
      shared.parts.template store<kWidth>(own + r * share.pitch, results<Element>(lowered));
    }
  }
  // Of a matrix that is scanned from its end, the last tile's rows: copies cannot begin before it.
  __device__ __forceinline__ static void store_rows(SharedStorage& shared, const Arguments& a,
                                                    const Share& share, const Place& place,
                                                    int own) {
    if (place.column + share.lane * kWidth >= a.vectors * kWidth) return;
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = place.row + (thread_index() / a.across + 1) * kRows - 1 - r;
      if (row < 0) return;
      const auto y = shared.parts.template load<kWidth>(own + r * share.pitch);
      thread::store(
          a.y + place.matrix * a.y_matrix + row * a.y_pitch + place.column + share.lane * kWidth,
          y);
    }
  }
  __device__ __forceinline__ static Packed<Element> row_at(SharedStorage& shared, int at) {
    return std::bit_cast<Packed<Element>>(shared.parts.template load<kWidth>(at));
  }

  // A thread's columns, 16 bytes at a time.
  static constexpr int kStep =
      kWidth * sizeof(Accumulator) < 16 ? kWidth : static_cast<int>(16 / sizeof(Accumulator));
  template <class Array>
  __device__ __forceinline__ static Vec<Accumulator, kWidth> accumulators(Array& from, int at) {
    Vec<Accumulator, kWidth> all;
#pragma unroll
    for (int first = 0; first < kWidth; first += kStep) {
      const auto some = from.template load<kStep>(at + first);
#pragma unroll
      for (int i = 0; i < kStep; ++i) all[first + i] = some[i];
    }
    return all;
  }
  template <class Array>
  __device__ __forceinline__ static void store_accumulators(Array& to, int at,
                                                            const Vec<Accumulator, kWidth>& all) {
#pragma unroll
    for (int first = 0; first < kWidth; first += kStep) {
      Vec<Accumulator, kStep> some;
#pragma unroll
      for (int i = 0; i < kStep; ++i) some[i] = all[first + i];
      to.template store<kStep>(at + first, some);
    }
  }

  // A thread a column, of every kLookers-th tile.
  __device__ __forceinline__ static void look_back(SharedStorage& shared, const Arguments& a) {
    const int thread = thread_index() - kScanners - kWarpSize;
    const int set = thread / kColumns;
    const int column = thread - set * kColumns;
    const auto meet = [set] { ptx::barrier_sync(2 + set, kColumns); };
    Turn turn;
    turn.advance(set);
    for (;; turn.advance(kLookers)) {
      ptx::mbarrier_wait_parity(shared.published[turn.stage], turn.parity);
      const uint64_t item = shared.total_of[turn.stage];
      if (item >= a.items) return;
      const Place place(a, item);
      const bool alone = a.look_back.tiles == 1;
      Accumulator prefix = Monoid::none();
      const int mine = turn.stage * kColumns + column;
      if (!alone && column < a.across * kWidth) {
        const Accumulator total = shared.total[mine];
        prefix = a.look_back.template seen_by_thread<8>(place.line, place.tile, column, total,
                                                        Monoid::none(), Monoid::merge);
      }
      shared.prefix[mine] = prefix;
      ptx::mbarrier_arrive(shared.known[turn.stage]);
      if (alone) continue;
      meet();
      if (column == 0) a.look_back.done(place.line, place.tile);
      a.look_back.leave(place.line, place.tile, column, kColumns, meet);
    }
  }
};

// By what a scanning thread has in `totals`: 16, 32 and 64 bytes a turn.
template <class Shape16, class Shape32, class Shape64>
struct ColumnsQueuePolicy {
  template <class Monoid>
  static constexpr size_t kBytes =
      row::kWidest<typename Monoid::Element> * sizeof(typename Monoid::Accumulator);
  template <class Monoid>
  using Shape = std::conditional_t<kBytes<Monoid> <= 16, Shape16,
                                   std::conditional_t<kBytes<Monoid> == 32, Shape32, Shape64>>;
};

template <class Policy>
struct ColumnsQueue {
  template <class Monoid>
  using Kernel = ColumnsQueueKernel<Monoid, typename Policy::template Shape<Monoid>>;
  // What Columns::plan() asks of a kernel.
  template <class Monoid>
  struct Planned {
    static constexpr int kWidth = Kernel<Monoid>::kWidth;
    static constexpr int kThreads = Kernel<Monoid>::kScanners;
  };

  static bool supports(const Scan& call, Why& why) {
    if (!Columns::supports(call, why)) return false;
    const Loop matrices = Columns::shape_of(call).matrices;
    const auto apart = [&](size_t k) {
      return call.strides[k] > 0 && (matrices.extent == 1 || matrices.strides[k] > 0);
    };
    constexpr int64_t kMost = int64_t{1} << 30;  // coordinates, with a tile beyond
    return why.unless(call.dtype == call.output_dtype,
                      "results take the places of elements, and have to be as wide") &&
           why.unless(apart(0) && apart(1), "copies boxes of rows that lie apart") &&
           why.unless(call.count < kMost && call.lines < kMost,
                      "takes fewer than 2^30 rows and columns");
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      if constexpr (std::is_same_v<typename Monoid::Element, typename Monoid::Result>) {
        typename Kernel<Monoid>::Arguments a{};
        const size_t bytes = sizeof(uint64_t) + plan(call, a).workspace().bytes;
        workspace = {.bytes = bytes, .zeroed = bytes};
      }
    });
    return workspace;
  }
  template <class Monoid>
  static LookBackPlan plan(const Scan& call, ColumnsArguments<Monoid>& a) {
    return Columns::plan<Planned<Monoid>>(call, a, Kernel<Monoid>::kRows);
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
    using K = Kernel<Monoid>;
    typename K::Arguments a{};
    const LookBackPlan look_back = plan<Monoid>(call, a);
    Columns::set_tensors(call, monoid, a);
    auto* const next = static_cast<uint64_t*>(context.workspace);
    a.look_back = {look_back, next + 1};
    const auto [matrices, columns] = Columns::shape_of(call);
    const auto map = [&](const typename Monoid::Element* base, size_t k) {
      return ptx::make_tensor_map_3d(
          base, {matrices.extent, matrices.strides[k]}, call.count, columns.extent, call.strides[k],
          kWarpSize / a.across * K::kRows, a.across * K::kWidth, ptx::Swizzle::kNone);
    };
    a.from = map(a.x, 0);
    a.to = map(a.y, 1);
    a.items = static_cast<uint64_t>(look_back.lines * look_back.tiles);
    a.next = next;
    Grid grid{.blocks = 1, .threads = K::kThreads, .cluster = 1};
    grid.blocks = std::min(look_back.lines * look_back.tiles, resident_clusters<K>(grid));
    launch<K>(grid, context.stream, a);
  }
};

}  // namespace ws::scan
#endif
