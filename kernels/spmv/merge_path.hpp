// The list of a matrix' entries and of the ends of its rows, each end behind its row's last entry,
// cut into tiles of one length: how many rows have ended before each.
#pragma once

#include <algorithm>

#include "kernels/spmv/csr.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::spmv {

inline int64_t tiles_of(const Matrix& matrix, int tile_items) {
  return divide_up(matrix.rows + matrix.entries, tile_items);
}
inline size_t bytes_of_starts(int64_t tiles) {
  return static_cast<size_t>(tiles + 1) * sizeof(int64_t);
}

#if WS_DEVICE_CODE
// A thread a row, and one behind the last: nothing is searched, as a row knows the tiles that begin
// between the end before and its own. Reports what is wrong of the rows' ends.
template <class T, class I>
struct StartsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRows = 4;  // of a thread, a step: all asked for before one is looked at
  struct Arguments {
    Csr<T, I> a;
    int64_t* starts;  // one for each tile, and one for the end of the last
    int64_t tiles;
    thread::Divider tile_items;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& a = arguments.a;
    const int64_t stride = grid_blocks() * kThreads;
    for (int64_t first = block_index() * kThreads + warp_index() * kWarpSize; first <= a.rows;
         first += kRows * stride) {
      Entries said[kRows] = {};
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int64_t row = first + i * stride + lane_index();
        if (a.rows > 0) said[i] = a.said_of(row < a.rows ? row : a.rows - 1);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (first + i * stride <= a.rows) begin_tiles(arguments, first + i * stride, said[i]);
      }
    }
  }

 private:
  // The end of row i stands behind i others and its entries. Ends that are wrong count as none or
  // as all entries, so that a tile begins within both lists whatever they are; it may then be told
  // by several rows, of which one stands.
  __device__ __forceinline__ static int64_t tile_of(const Arguments& arguments, int64_t row,
                                                    int64_t end) {
    const int64_t most = arguments.a.entries;
    const int64_t place = row + (end < 0 ? 0 : end < most ? end : most);
    const thread::Divider& items = arguments.tile_items;
    if (place < int64_t{1} << 31) return items.quotient(static_cast<uint32_t>(place));
    return place / items.divisor();
  }

  // The 32 rows from `first` on.
  __device__ __forceinline__ static void begin_tiles(const Arguments& arguments, int64_t first,
                                                     const Entries& said) {
    const auto& [a, starts, tiles, tile_items] = arguments;
    const int64_t row = first + lane_index();
    int64_t tile = 0;
    int64_t last = tiles;
    if (row < a.rows) {
      a.checked(row, said);
      last = tile_of(arguments, row, said.end);
      last = last < tiles ? last : tiles;
    }
    if (row > 0) tile = tile_of(arguments, row - 1, row < a.rows ? said.first : said.end) + 1;
    const bool begins = row <= a.rows && tile <= last;
    for (uint32_t rows = ptx::vote_sync_ballot(kFullMask, begins); rows != 0; rows &= rows - 1) {
      const int lane = ptx::lowest_bit(rows);
      const int64_t end = warp::shuffle(last, lane);
      for (int64_t i = warp::shuffle(tile, lane) + lane_index(); i <= end; i += kWarpSize) {
        ptx::st_global_relaxed(starts + i, first + lane);
      }
    }
  }
};

// What a tile has of the list. Entries behind the last row are none of its.
struct TileOfList {
  int64_t first_row;
  int64_t first_entry;
  int rows;  // that end in it
  int entries;
  bool fits;  // as all tiles do where ends do not fall

  template <class T, class I>
  __device__ __forceinline__ TileOfList(const Csr<T, I>& a, const int64_t* starts, int64_t tile,
                                        int tile_items) {
    first_row = thread::load(starts + tile);
    const int64_t ended = thread::load(starts + tile + 1) - first_row;
    const int64_t last_end = thread::load(a.crow + a.rows);
    const int64_t begin = tile * tile_items;
    const int64_t all = a.rows + a.entries - begin;
    const int64_t items = all < tile_items ? all : tile_items;
    first_entry = begin - first_row;
    fits = ended >= 0 && ended <= items;
    rows = static_cast<int>(ended);
    const int64_t left = (last_end < a.entries ? last_end : a.entries) - first_entry;
    entries = static_cast<int>(left < 0 ? 0 : left < items - ended ? left : items - ended);
  }
};

// How many rows have ended before an item of the list: a warp asks for 32 of them at a time.
// First around where it would be if rows were of one length, ever further away, then for a 33rd
// part each of what is left. What it finds is a place of both lists, whatever crow holds.
template <class T, class I>
__device__ __forceinline__ int64_t rows_before(const Csr<T, I>& a, int64_t item) {
  const int64_t most = item < a.rows ? item : a.rows;
  int64_t low = item > a.entries ? item - a.entries : 0;
  int64_t high = most;
  const auto all = static_cast<double>(a.rows + a.entries);
  const auto guess =
      static_cast<int64_t>(static_cast<double>(item) / all * static_cast<double>(a.rows));
  // Of places in [low, high), none below another's: to the first that has not ended.
  const auto narrow_by = [&](const auto& probe) {
    const int64_t row = probe(lane_index());
    const int64_t end = thread::load(a.crow + row + 1);
    const int64_t entries = end < 0 ? 0 : end < a.entries ? end : a.entries;
    const int count = ptx::count_bits(ptx::vote_sync_ballot(kFullMask, row + entries < item));
    const int64_t from = count == 0 ? low : probe(count - 1) + 1;
    const int64_t to = count == kWarpSize ? high : probe(count);
    low = from;
    high = to;
  };
  if (low < high) {
    narrow_by([&, low, high](int lane) {
      const int far = lane - kWarpSize / 2;
      const int64_t row = guess + (far < 0 ? -(int64_t{1} << (-far - 1)) : (int64_t{1} << far) - 1);
      return row < low ? low : row < high ? row : high - 1;
    });
  }
  while (low < high) {
    narrow_by([low, high](int lane) { return low + (high - low) * (lane + 1) / (kWarpSize + 1); });
  }
  return low < most ? low : most;
}

// Leaves tiles + 1 numbers in `starts`.
template <class T, class I>
void find_starts(const Csr<T, I>& a, int64_t* starts, int64_t tiles, int tile_items,
                 Stream stream) {
  using Starts = StartsKernel<T, I>;
  constexpr int64_t kMostBlocks = 4096;
  const int64_t blocks = divide_up(a.rows + 1, Starts::kRows * Starts::kThreads);
  launch<Starts>({.blocks = std::min(blocks, kMostBlocks), .threads = Starts::kThreads}, stream,
                 {a, starts, tiles, thread::Divider(tile_items)});
}
#endif

}  // namespace ws::spmv
