// Idea: three launches for a row that is cut into tiles: each tile's total; the scan of the totals;
// each tile's scan from what lies before it.
// From block_scan: all SMs work on one vector.
// Traffic: two reads, one write; 8 bytes a tile. Where the L2 holds the row, the second read is
// cheap.
// Limits: cumsum of rows whose elements lie side by side.
#pragma once

#include "kernels/scan/tile.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/launch.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class T, bool kTotals>
struct ScanTilesKernel {
  static constexpr int kThreads = 256;
  static constexpr int kVectors = 4;
  static constexpr int kTile = kThreads * kVectors;  // vectors
  using Monoid = SumOf<T, T>;
  using Tile = RowTile<Monoid, kVectors>;
  using Scan = block::ScanOfWarps<float, kThreads>;
  struct Arguments {
    Rows<Monoid> rows;
    int64_t vectors;  // of a row
    int64_t tiles;    // of a row
    float* totals;    // [rows, tiles]: of each tile, and then of all before it
  };
  struct SharedStorage {
    typename Scan::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Scan scan(shared.totals);
    const RowOf<Monoid> row(a.rows, block_index() / a.tiles);
    const int64_t first = block_index() % a.tiles * kTile + warp_index() * Tile::kSpan;
    Tile tile;
    tile.load({}, row, first, a.vectors);
    const auto [before, total] = scan(tile.scan({}), 0.0F, Monoid::merge);
    if constexpr (kTotals) {
      if (thread_index() == 0) thread::store(a.totals + block_index(), total);
    } else {
      tile.store({}, row, thread::load(a.totals + block_index()) + before);
    }
  }
};

// A block a row: what lies before each of its tiles.
struct ScanTotalsKernel {
  static constexpr int kThreads = 512;
  using Scan = block::ScanOfWarps<float, kThreads>;
  struct Arguments {
    float* totals;  // [rows, tiles]
    int64_t tiles;
  };
  struct SharedStorage {
    typename Scan::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto add = [](float x, float y) { return x + y; };
    Scan scan(shared.totals);
    float* totals = a.totals + block_index() * a.tiles;
    float carry = 0;
    for (int64_t start = 0; start < a.tiles; start += kThreads) {
      const int64_t i = start + thread_index();
      const float sum = warp::inclusive_scan(i < a.tiles ? thread::load(totals + i) : 0.0F, add);
      const float of_warp = warp::shuffle(sum, kWarpSize - 1);
      const auto [before, total] = scan(of_warp, 0.0F, add);
      const float lower = warp::shift_up(sum, 0.0F);
      if (i < a.tiles) thread::store(totals + i, carry + before + lower);
      carry += total;
    }
  }
};

struct ReduceThenScan {
  static int64_t tiles(const Scan& call) {
    return divide_up(
        divide_up(static_cast<int64_t>(size_of(call.dtype)) * call.count, int64_t{16}) + 1,
        int64_t{ScanTilesKernel<float, true>::kTile});
  }
  static bool supports(const Scan& call, Why& why) {
    return rows_supported(call, why) &&
           why.unless(call.lines * tiles(call) < int64_t{1} << 31, "takes fewer than 2^31 tiles");
  }
  static Workspace workspace(const Scan& call) {
    return {.bytes = static_cast<size_t>(call.lines * tiles(call)) * sizeof(float)};
  }
  static void run(const Scan& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Totals = ScanTilesKernel<T, true>;
      using Results = ScanTilesKernel<T, false>;
      const int64_t count = tiles(call);
      auto* totals = static_cast<float*>(context.workspace);
      const auto rows = rows_of<SumOf<T, T>>(call);
      const int64_t vectors = vectors_of<SumOf<T, T>>(call);
      const Grid grid{.blocks = call.lines * count, .threads = Totals::kThreads};
      launch<Totals>(grid, context.stream, {rows, vectors, count, totals});
      launch<ScanTotalsKernel>({.blocks = call.lines, .threads = ScanTotalsKernel::kThreads},
                               context.stream, {totals, count});
      launch<Results>(grid, context.stream, {rows, vectors, count, totals});
    });
  }
};

inline constexpr Rung kReduceThenScan = rung_of<ReduceThenScan, kFloats, Cumsum>(
    {.name = "reduce_then_scan",
     .from = "block_scan",
     .idea = "totals of tiles, their scan, the tiles' scans: three launches for one long row"});

}  // namespace ws::scan
#endif
