// Sums of entries that come row by row: every thread has four, every block a tile of 2048, and what
// a tile has of the rows that it shares with others another launch adds up.
#pragma once

#include "kernels/spmv/coo.hpp"
#include "kernels/spmv/rows_of_tiles.hpp"

namespace ws::spmv {

inline constexpr int kSegmentThreads = 512;
inline constexpr int kSegmentWidth = 4;
inline constexpr int kSegmentTile = kSegmentThreads * kSegmentWidth;

inline int64_t tiles_of(const CooCall& call) { return divide_up(call.entries, kSegmentTile); }

inline bool has_few_tiles(const CooCall& call, Why& why) {
  return why.unless(tiles_of(call) < int64_t{1} << 31, "takes fewer than 2^31 tiles, not ",
                    tiles_of(call));
}

#if WS_DEVICE_CODE
// A thread's entries; of those that are none, and of wrong ones, the row is Coo::rows.
template <class T>
struct FourEntries {
  int64_t rows[kSegmentWidth];
  int64_t next;  // the row of the entry behind them
  Vec<Sum<T>, kSegmentWidth> products;
};

// Entries::load(arguments.entries, j) gives those from j on.
template <class T, class Entries>
struct SegmentsKernel {
  static constexpr int kThreads = kSegmentThreads;
  static constexpr int kMinBlocks = 2;
  using Part = Open<Sum<T>>;
  using Scan = block::ScanOfWarps<Part, kThreads>;
  struct Arguments {
    Entries entries;
    Result<T> result;
    PartsOfTiles<Sum<T>> parts;
    int64_t rows;
  };
  struct SharedStorage {
    typename Scan::Storage scan;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const int64_t thread = block_index() * kThreads + thread_index();
    const FourEntries<T> mine = a.entries.load(thread * kSegmentWidth);
    // The first row that ends here may have begun before; others are this thread's own.
    int64_t first_row = -1;
    Sum<T> first = 0;
    Sum<T> sum = 0;
#pragma unroll
    for (int e = 0; e < kSegmentWidth; ++e) {
      sum += mine.products[e];
      const int64_t row = mine.rows[e];
      if (row == (e + 1 < kSegmentWidth ? mine.rows[(e + 1) % kSegmentWidth] : mine.next)) continue;
      if (first_row < 0) {
        first_row = row;
        first = sum;
      } else {
        store(a, row, sum);
      }
      sum = 0;
    }
    const Part none{0, false};
    const Part up_to = warp::inclusive_scan(Part{sum, first_row >= 0}, Part::merge);
    Scan scan(shared.scan);
    const auto [before, total] = scan(warp::shuffle(up_to, kWarpSize - 1), none, Part::merge);
    const Part open = Part::merge(before, warp::shift_up(up_to, none));
    if (first_row >= 0 && open.begins) store(a, first_row, open.sum + first);
    // The tile's first row may have begun before it.
    if (first_row >= 0 && !open.begins) {
      a.parts.store(block_index(), first_row, open.sum + first, total.sum);
    }
    if (thread_index() == 0 && !total.begins) a.parts.store(block_index(), -1, 0, total.sum);
  }

 private:
  __device__ __forceinline__ static void store(const Arguments& a, int64_t row, Sum<T> sum) {
    if (row < a.rows) a.result.store_relaxed(row, sum);
  }
};

// y of a matrix whose entries are read by Entries. Rows without an entry are written before all
// others.
template <class T, class Entries>
void add_segments(const CooCall& call, const Entries& entries, void* workspace, Stream stream) {
  store_rows<T>(call, nullptr, stream);
  if (call.entries == 0) return;
  const int64_t tiles = tiles_of(call);
  const Result<T> result(call);
  const PartsOfTiles<Sum<T>> parts(workspace, tiles);
  launch<SegmentsKernel<T, Entries>>(
      {.blocks = tiles, .threads = kSegmentThreads, .overlaps = true}, stream,
      {entries, result, parts, call.rows});
  add_up_rows_of_tiles<T>(parts, result, call.rows, tiles, stream);
}
#endif

}  // namespace ws::spmv
