// Rows that several tiles have a part of: what each leaves of them, and a launch that adds the
// parts up in their order, the same in every run.
#pragma once

#include "kernels/spmv/elements.hpp"
#include "warpsmith/block/scan.hpp"
#include "warpsmith/ptx/grid.hpp"

namespace ws::spmv {

// Of so many tiles, in the workspace.
inline size_t bytes_of_parts(DType dtype, int64_t tiles) {
  return static_cast<size_t>(tiles) * (sizeof(int64_t) + 2 * size_of_sum(dtype));
}

#if WS_DEVICE_CODE
// Each tile's part of the rows that it shares with others. Between the two lie rows of its own.
template <class S>
struct PartsOfTiles {
  int64_t* rows;  // the first row that ends in the tile; -1: none does
  S* firsts;      // what the tile has of that row
  S* rests;       // what it has of the row that is open where it ends

  PartsOfTiles(void* memory, int64_t tiles)
      : rows(static_cast<int64_t*>(memory)),
        firsts(reinterpret_cast<S*>(rows + tiles)),
        rests(firsts + tiles) {}

  __device__ __forceinline__ void store(int64_t tile, int64_t row, S first, S rest) const {
    store_first(tile, row, first);
    store_rest(tile, rest);
  }
  __device__ __forceinline__ void store_first(int64_t tile, int64_t row, S first) const {
    thread::store(rows + tile, row);
    thread::store(firsts + tile, first);
  }
  __device__ __forceinline__ void store_rest(int64_t tile, S rest) const {
    thread::store(rests + tile, rest);
  }
};

// What a stretch of the list has of the row that is open at its end, and whether a row ends before.
template <class S>
struct Open {
  S sum;
  bool begins;

  __device__ __forceinline__ static Open merge(const Open& before, const Open& after) {
    return after.begins ? after : Open{before.sum + after.sum, before.begins};
  }
};

// A thread a tile. What tiles before leave of a row that is open where this block's begin, all its
// threads add up together, 2048 tiles a step: mostly one step, as rows end there.
template <class T>
struct RowsOfTilesKernel {
  static constexpr int kThreads = 512;
  static constexpr int kStep = 4;  // tiles of a thread when it looks at blocks before
  using Part = Open<Sum<T>>;
  using Scan = block::ScanOfWarps<Part, kThreads>;
  struct Arguments {
    PartsOfTiles<Sum<T>> parts;
    Result<T> result;
    int64_t rows;  // one from here on is none, and is not stored
    int64_t tiles;
  };
  struct SharedStorage {
    typename Scan::Storage scan;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& arguments) const {
    const auto& [parts, result, rows, tiles] = arguments;
    ptx::griddepcontrol_wait();
    const int64_t begin = block_index() * kThreads;
    const int64_t tile = begin + thread_index();
    const bool is_one = tile < tiles;
    const int64_t row = is_one ? thread::load(parts.rows + tile) : -1;
    const Sum<T> first = is_one ? thread::load(parts.firsts + tile) : 0;
    const Part none{0, false};
    const Part mine = is_one ? Part{thread::load(parts.rests + tile), row >= 0} : none;
    Scan scan(shared.scan);
    const Part up_to = warp::inclusive_scan(mine, Part::merge);
    const auto [before, total] = scan(warp::shuffle(up_to, kWarpSize - 1), none, Part::merge);
    Part open = Part::merge(before, warp::shift_up(up_to, none));
    if (total.begins) {
      Part handed = none;
      for (int64_t end = begin; end > 0 && !handed.begins; end -= kStep * kThreads) {
        const int64_t from = end - kStep * (kThreads - thread_index());
        Part part = none;
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
          const bool is_there = from + i >= 0;
          const Part next = part_of(parts, is_there ? from + i : 0);
          part = Part::merge(part, {is_there ? next.sum : 0, is_there && next.begins});
        }
        const Part sums = warp::inclusive_scan(part, Part::merge);
        const Part step = scan(warp::shuffle(sums, kWarpSize - 1), none, Part::merge).total;
        handed = Part::merge(step, handed);
      }
      open = Part::merge(handed, open);
    }
    if (row >= 0 && row < rows) result.store_relaxed(row, open.sum + first);
  }

 private:
  __device__ __forceinline__ static Part part_of(const PartsOfTiles<Sum<T>>& parts, int64_t tile) {
    return {thread::load(parts.rests + tile), thread::load(parts.rows + tile) >= 0};
  }
};

// The same by one block, which all of its threads call: a thread has some parts that follow each
// other.
template <class T, int kThreads>
__device__ __forceinline__ void add_up_all_parts(
    typename block::ScanOfWarps<Open<Sum<T>>, kThreads>::Storage& storage,
    const PartsOfTiles<Sum<T>>& parts, const Result<T>& result, int count) {
  using Part = Open<Sum<T>>;
  const int each = divide_up(count, kThreads);
  const int first = thread_index() * each;
  const int end = first + each < count ? first + each : count;
  const auto part = [&](int i) -> Part {
    return {thread::load(parts.rests + i), thread::load(parts.rows + i) >= 0};
  };
  const Part none{0, false};
  Part mine = none;
  for (int i = first; i < end; ++i) mine = Part::merge(mine, part(i));
  const Part up_to = warp::inclusive_scan(mine, Part::merge);
  block::ScanOfWarps<Part, kThreads> scan(storage);
  const Part before = scan(warp::shuffle(up_to, kWarpSize - 1), none, Part::merge).before;
  Part open = Part::merge(before, warp::shift_up(up_to, none));
  for (int i = first; i < end; ++i) {
    const int64_t row = thread::load(parts.rows + i);
    if (row >= 0) result.store_relaxed(row, open.sum + thread::load(parts.firsts + i));
    open = Part::merge(open, part(i));
  }
}

// Begins while the launch of the tiles ends.
template <class T>
void add_up_rows_of_tiles(const PartsOfTiles<Sum<T>>& parts, const Result<T>& result, int64_t rows,
                          int64_t tiles, Stream stream) {
  using Rows = RowsOfTilesKernel<T>;
  launch<Rows>(
      {.blocks = divide_up(tiles, Rows::kThreads), .threads = Rows::kThreads, .overlaps = true},
      stream, {parts, result, rows, tiles});
}
#endif

}  // namespace ws::spmv
