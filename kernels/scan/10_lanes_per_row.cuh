// Idea: short rows: 8 or 32 lanes a row, as long as it is, with a carry from part to part; no
// barrier, and shared memory for lines alone that do not lie in vectors.
// From block_scan: no thread waits for those of another row.
// Traffic: one read, one write.
// Limits: few rows leave the device idle.
#pragma once

#include "kernels/scan/lines.hpp"
#include "warpsmith/launch.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// kWhole: the lanes hold a whole row.
template <class Monoid, int kLanes, int kVectors, bool kWhole, class Lay>
struct LanesPerRowKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRowsOfBlock = kThreads / kLanes;
  using Tile = typename Lay::template Tile<Monoid, kVectors, kLanes>;
  struct Arguments {
    Monoid monoid;
    typename Lay::template Rows<Monoid> rows;
    int64_t vectors;  // of a row
  };
  struct SharedStorage {
    typename Tile::template Storage<kThreads> turn;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const typename Tile::Row row(a.rows, block_index() * kRowsOfBlock + thread_index() / kLanes);
    Tile next(shared.turn);
    next.load(a.monoid, row, 0, a.vectors);
    if constexpr (kWhole) {
      next.scan(a.monoid);
      next.store(a.monoid, row, Monoid::none());
    } else {
      auto carry = Monoid::none();
      for (int64_t first = 0; first < a.vectors; first += Tile::kSpan) {
        Tile tile = next;
        if (first + Tile::kSpan < a.vectors) {
          next.load(a.monoid, row, first + Tile::kSpan, a.vectors);
        }
        const auto total = tile.scan(a.monoid);
        tile.store(a.monoid, row, carry);
        carry = Monoid::merge(carry, total);
      }
    }
  }
};

struct LanesPerRow {
  static bool supports(const Scan& call, Why& why) { return lines_supported(call, why); }

  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_monoid<kEveryDType>(call, [&]<class Monoid>(const Monoid& monoid) {
      with_tiles(call, [&]<class Lay>(Lay) {
        const int64_t vectors = Lay::template vectors_of<Monoid>(call);
        const auto with = [&]<int kLanes, int kVectors, bool kWhole>() {
          using Kernel = LanesPerRowKernel<Monoid, kLanes, kVectors, kWhole, Lay>;
          launch<Kernel>({.blocks = divide_up(call.lines, int64_t{Kernel::kRowsOfBlock}),
                          .threads = Kernel::kThreads},
                         context.stream, {monoid, Lay::template rows_of<Monoid>(call), vectors});
        };
        if (vectors <= 32) {
          with.template operator()<8, 4, true>();
        } else {
          with.template operator()<32, 2, false>();
        }
      });
    });
  }
};

}  // namespace ws::scan
#endif
