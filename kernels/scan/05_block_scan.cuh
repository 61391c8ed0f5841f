// Idea: four vectors of 16 bytes a thread, coalesced, scanned where they lie: lanes scan the folds
// of their vectors, so that elements need not change places (tile.hpp). The next part of the row is
// on its way while this one is scanned.
// From warp_scan: 64 bytes a thread for each shuffle's five steps and each barrier.
// Traffic: one read, one write.
// Limits: a vector is one block's.
#pragma once

#include "kernels/scan/lines.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/launch.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class Monoid, int kThreads_, int kVectors, class Lay>
struct BlockScanKernel {
  static constexpr int kThreads = kThreads_;
  static constexpr int kTile = kThreads * kVectors;  // vectors
  using Accumulator = typename Monoid::Accumulator;
  using Tile = typename Lay::template Tile<Monoid, kVectors>;
  using Scan = block::ScanOfWarps<Accumulator, kThreads>;
  struct Arguments {
    Monoid monoid;
    typename Lay::template Rows<Monoid> rows;
    int64_t vectors;  // of a row
  };
  struct SharedStorage {
    typename Scan::Storage totals;
    typename Tile::template Storage<kThreads> turn;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Scan scan(shared.totals);
    const typename Tile::Row row(a.rows, block_index());
    const int own = warp_index() * Tile::kSpan;
    Accumulator carry = Monoid::none();
    Tile next(shared.turn);
    next.load(a.monoid, row, own, a.vectors);
    for (int64_t first = 0; first < a.vectors; first += kTile) {
      Tile tile = next;
      if (first + kTile < a.vectors) next.load(a.monoid, row, first + kTile + own, a.vectors);
      const auto [before, total] = scan(tile.scan(a.monoid), Monoid::none(), Monoid::merge);
      tile.store(a.monoid, row, Monoid::merge(carry, before));
      carry = Monoid::merge(carry, total);
    }
  }
};

template <int kThreads, int kVectors>
struct BlockScan {
  static bool supports(const scan::Scan& call, Why& why) { return lines_supported(call, why); }

  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      with_tiles(call, [&]<class Lay>(Lay) {
        using Kernel = BlockScanKernel<Monoid, kThreads, kVectors, Lay>;
        launch<Kernel>(
            {.blocks = call.lines, .threads = kThreads}, context.stream,
            {monoid, Lay::template rows_of<Monoid>(call), Lay::template vectors_of<Monoid>(call)});
      });
    });
  }
};

}  // namespace ws::scan
#endif
