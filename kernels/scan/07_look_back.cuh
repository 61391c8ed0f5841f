// Idea: one launch: a tile publishes its total, waits for those before it in its group of tiles
// and for the group's prefix, and writes while others still read (look_back.hpp).
// From reduce_then_scan: the row is read once. The order of additions is fixed, so that the bits
// are the same in each run, which the published algorithm does not promise.
// Traffic: one read, one write; 8 bytes a tile written, 0.5 KiB a tile looked at, in L2.
// Limits: lines whose elements lie apart, or differently on the two sides, by single elements.
#pragma once

#include "kernels/scan/lines.hpp"
#include "kernels/scan/look_back.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/launch.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// Threads of a block, vectors of a thread, blocks an SM holds.
template <int kThreads_, int kVectors_, int kMinBlocks_>
struct LookBackShape {
  static constexpr int kThreads = kThreads_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kMinBlocks = kMinBlocks_;
  static constexpr int64_t kTile = int64_t{kThreads} * kVectors;
};
// Of values of 4 and of 8 bytes.
template <class Shape4, class Shape8>
struct LookBackPolicy {
  static constexpr int64_t kLeastTile = std::min(Shape4::kTile, Shape8::kTile);
  template <class Accumulator>
  using Shape = std::conditional_t<sizeof(Accumulator) == 4, Shape4, Shape8>;
};

template <class Monoid, class Policy, class Lay>
struct LookBackKernel {
  using Accumulator = typename Monoid::Accumulator;
  using Shape = typename Policy::template Shape<Accumulator>;
  static constexpr int kThreads = Shape::kThreads;
  // Results wider than elements take registers.
  static constexpr int kMinBlocks =
      Shape::kMinBlocks - (sizeof(typename Monoid::Result) > sizeof(typename Monoid::Element));
  static constexpr int kTile = static_cast<int>(Shape::kTile);  // vectors
  using Tile = typename Lay::template Tile<Monoid, Shape::kVectors>;
  using Scan = block::ScanOfWarps<Accumulator, kThreads>;
  struct Arguments {
    Monoid monoid;
    typename Lay::template Rows<Monoid> rows;
    int64_t vectors;  // of a row
    LookBack<Accumulator> look_back;
  };
  struct SharedStorage {
    typename Scan::Storage totals;
    typename Tile::template Storage<kThreads> turn;
    SharedArray<uint32_t, 1> drawn;
    SharedArray<Accumulator, 1> prefix;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Scan scan(shared.totals);
    const bool alone = a.look_back.tiles == 1;  // in its row
    const uint32_t item =
        alone ? static_cast<uint32_t>(block_index()) : a.look_back.draw(shared.drawn);
    const uint32_t line = item / static_cast<uint32_t>(a.look_back.tiles);
    const auto nth = static_cast<int>(item - line * static_cast<uint32_t>(a.look_back.tiles));
    const typename Tile::Row row(a.rows, line);
    Tile tile(shared.turn);
    tile.load(a.monoid, row, int64_t{nth} * kTile + warp_index() * Tile::kSpan, a.vectors);
    auto [before, total] = scan(tile.scan(a.monoid), Monoid::none(), Monoid::merge);
    if (!alone) {
      if (warp_index() == 0) {
        const Accumulator prefix =
            a.look_back.by_warp(line, nth, total, Monoid::none(), Monoid::merge);
        if (lane_index() == 0) shared.prefix[0] = prefix;
      }
      ptx::barrier_sync();
      const Accumulator prefix = shared.prefix[0];
      before = Monoid::merge(prefix, before);
    }
    tile.store(a.monoid, row, before);
    if (!alone && warp_index() == 0) {
      a.look_back.leave(line, nth, lane_index(), kWarpSize, [] { ptx::syncwarp(); });
    }
  }
};

template <class Policy>
struct LookBackRung {
  template <class Monoid, class Lay>
  static LookBackPlan plan(const Scan& call) {
    return look_back_plan<Monoid>(call, Lay::template vectors_of<Monoid>(call),
                                  LookBackKernel<Monoid, Policy, Lay>::kTile);
  }
  static bool supports(const Scan& call, Why& why) {
    return lines_supported(call, why) && tiles_supported(call, 16 * Policy::kLeastTile, why);
  }
  template <class Call>
  static Workspace workspace(const Call& call) {
    Workspace workspace;
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& /*monoid*/) {
      workspace =
          with_tiles(call, [&]<class Lay>(Lay) { return plan<Monoid, Lay>(call); }).workspace();
    });
    return workspace;
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      with_tiles(call, [&]<class Lay>(Lay) {
        using Kernel = LookBackKernel<Monoid, Policy, Lay>;
        const LookBackPlan look_back = plan<Monoid, Lay>(call);
        launch<Kernel>({.blocks = look_back.lines * look_back.tiles, .threads = Kernel::kThreads},
                       context.stream,
                       {monoid,
                        Lay::template rows_of<Monoid>(call),
                        Lay::template vectors_of<Monoid>(call),
                        {look_back, context.workspace}});
      });
    });
  }
};

}  // namespace ws::scan
#endif
