// The list of a matrix' entries and of the ends of its rows, each end behind its row's last entry,
// cut into tiles of one length: how many rows have ended before each.
#pragma once

#include "kernels/spmv/csr.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/vote.hpp"

namespace ws::spmv {

inline int64_t tiles_of(const Matrix& matrix, int tile_items) {
  return divide_up(matrix.rows + matrix.entries, tile_items);
}
inline size_t bytes_of_starts(int64_t tiles) {
  return static_cast<size_t>(tiles + 1) * sizeof(int64_t);
}

#if WS_DEVICE_CODE
// A warp for each tile, and one for the end of the last. Reports what is wrong of the rows' ends,
// also what no tile gets to see.
template <class T, class I>
struct StartsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Csr<T, I> a;
    int64_t* starts;  // one for each tile, and one for the end of the last
    int64_t tiles;
    int tile_items;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, starts, tiles, tile_items] = arguments;
    const int64_t tile = block_index() * (kThreads / kWarpSize) + warp_index();
    int64_t row = block_index() * kThreads + thread_index();
    const int64_t stride = grid_blocks() * kThreads;
    Said said = said_of(a, row, stride);  // on its way during the search
    if (tile <= tiles) {
      const int64_t all = a.rows + a.entries;
      const int64_t start = rows_before(a, tile * tile_items < all ? tile * tile_items : all);
      if (lane_index() == 0) thread::store(starts + tile, start);
    }
    while (row < a.rows) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (row + i * stride < a.rows) a.checked(row + i * stride, said.of[i]);
      }
      row += kRows * stride;
      said = said_of(a, row, stride);
    }
  }

 private:
  static constexpr int kRows = 4;  // of a thread, a step: all asked for before one is checked
  struct Said {
    Entries of[kRows];
  };
  // Of rows that are not there, the last one's.
  __device__ __forceinline__ static Said said_of(const Csr<T, I>& a, int64_t row, int64_t stride) {
    Said said{};
    if (row >= a.rows) return said;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int64_t mine = row + i * stride;
      said.of[i] = a.said_of(mine < a.rows ? mine : a.rows - 1);
    }
    return said;
  }

  // How many rows end among the first `items` of the list: row i's end stands behind i others and
  // crow[i + 1] entries. By a warp, 32 places at a time.
  __device__ __forceinline__ static int64_t rows_before(const Csr<T, I>& a, int64_t items) {
    int64_t low = items > a.entries ? items - a.entries : 0;
    int64_t high = items < a.rows ? items : a.rows;
    while (low < high) {
      const int64_t step = divide_up(high - low, kWarpSize);
      const int64_t row = low + lane_index() * step;
      const bool is_before = row < high && thread::load(a.crow + row + 1) + row < items;
      const int before = ptx::count_bits(ptx::vote_sync_ballot(kFullMask, is_before));
      if (before == 0) return low;
      const int64_t next = low + before * step;
      low += (before - 1) * step + 1;
      high = next < high ? next : high;
    }
    return low;
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

// How many of a tile's rows end among the first `items` of its list; end_of(i): how many of its
// entries are before row i's end.
template <class EndOf>
__device__ __forceinline__ int rows_before(int items, int rows, EndOf&& end_of) {
  int row = 0;
  for (int high = rows; row < high;) {
    const int middle = (row + high) / 2;
    if (end_of(middle) + middle < items) {
      row = middle + 1;
    } else {
      high = middle;
    }
  }
  return row;
}

// Leaves tiles + 1 numbers in `starts`.
template <class T, class I>
void find_starts(const Csr<T, I>& a, int64_t* starts, int64_t tiles, int tile_items,
                 Stream stream) {
  using Starts = StartsKernel<T, I>;
  launch<Starts>(
      {.blocks = divide_up(tiles + 1, Starts::kThreads / kWarpSize), .threads = Starts::kThreads},
      stream, {a, starts, tiles, tile_items});
}
#endif

}  // namespace ws::spmv
