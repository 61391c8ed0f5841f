// Rows of q, k or v in shared memory, swizzled as ldmatrix reads them, and their copies from and to
// global memory, where the rows of keys may lie in pages.
#pragma once

#include <bit>

#include "kernels/attention/sequences.hpp"
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/tile/staged_copy.hpp"

namespace ws::attention {

// Whether rows begin at multiples of 16 bytes and their columns are dense.
inline bool is_aligned(const Heads& heads, DType dtype, int64_t batch, int64_t count, int64_t rows,
                       int64_t columns) {
  const int64_t width = 16 / static_cast<int64_t>(size_of(dtype));
  const auto steps_well = [&](int64_t extent, int64_t stride) {
    return extent <= 1 || stride % width == 0;
  };
  return (columns <= 1 || heads.column == 1) && reinterpret_cast<uintptr_t>(heads.data) % 16 == 0 &&
         steps_well(batch, heads.batch) && steps_well(count, heads.head) &&
         steps_well(rows, heads.row);
}

// Rows from `first` on, `stride` elements apart, tile after tile.
template <class T>
struct StridedRows {
  const T* next;  // this thread's first piece of the next tile
  int64_t stride;
};

// The keys of sequence `batch`, which lie in pages.
template <class T>
struct PagedRows {
  const T* base;  // of the head, in page 0
  int64_t stride;
  int64_t page_stride;
  const int32_t* pages;
  int64_t pages_column;
  int64_t total_pages;
  unsigned page;  // rows of one; 32 bits divide in half the time

  __device__ __forceinline__ static PagedRows of_keys(const Heads& heads, int64_t batch,
                                                      int64_t head, const Sequences& all) {
    return {heads.as<const T>() + head * heads.head, heads.row,        heads.batch,
            all.pages + batch * all.pages_batch,     all.pages_column, all.total_pages,
            static_cast<unsigned>(all.page)};
  }
  // Null where a page is wrong, which is reported.
  __device__ __forceinline__ const T* at(int key) const {
    const unsigned nth = static_cast<unsigned>(key) / page;
    const int64_t where = thread::load(pages + nth * pages_column);
    if (where < 0 || where >= total_pages) return nullptr;
    return base + where * page_stride + (static_cast<unsigned>(key) - nth * page) * stride;
  }
};

// kRows rows of kColumns elements of 32, 16 or 8 bits, which are a multiple of 32 bytes. Of
// kThreads threads: a block, or any warp.
template <class T, int kRows, int kColumns, int kThreads>
struct RowTile {
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));  // elements of a chunk
  // In which chunks are permuted: 128 bytes, or rows of 64 of 8 bits.
  static constexpr int kLine = sizeof(T) == 1 && kColumns == 64 ? 64 : 8 * kWidth;
  using Tile = tile::SwizzledTile<kRows, (kColumns + kLine - 1) / kLine * kLine, kWidth>;
  static constexpr int kElements = Tile::kElements;
  static constexpr int kChunks =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(kColumns / kWidth)));
  static constexpr int kStep = kThreads / kChunks;  // rows of one pass
  static_assert(kThreads % kChunks == 0 && kRows % kStep == 0);

  // The rows from `first` on, which begin at multiples of 16 bytes.
  __device__ __forceinline__ static StridedRows<T> strided(const T* first, int64_t stride) {
    return {first + (index_of_thread() / kChunks) * stride + index_of_thread() % kChunks * kWidth,
            stride};
  }

  // Asks for the next tile, of which there are `rows` rows of `columns` columns; what there is not
  // becomes zeros. `valid` is any aligned address in the tensor.
  __device__ __forceinline__ static void copy(SharedSpan<T> to, StridedRows<T>& from,
                                              const T* valid, int rows, int columns WS_AND_PLACE) {
    const int column = index_of_thread() % kChunks * kWidth;
    const int bytes = bytes_of(columns - column);
    // The pointer walks: an address for each copy would cost registers all kernel long.
    if (rows >= kRows && bytes == 16) {
#pragma unroll
      for (int i = 0; i < kRows; i += kStep) {
        ptx::cp_async<16>(to.pointer(piece_at(i)), from.next, 16 WS_PASS_AND_PLACE);
        from.next += kStep * from.stride;
      }
    } else if (column < kColumns) {
      // A size that is not known when compiled takes eight instructions more.
#pragma unroll 1
      for (int i = 0; i < kRows; i += kStep) {
        const bool exists = bytes > 0 && i + index_of_thread() / kChunks < rows;
        ptx::cp_async<16>(to.pointer(piece_at(i)), exists ? from.next : valid,
                          exists ? bytes : 0 WS_PASS_AND_PLACE);
        from.next += kStep * from.stride;
      }
    }
  }
  // The same of keys `first` and on.
  __device__ __forceinline__ static void copy(SharedSpan<T> to, const PagedRows<T>& from, int first,
                                              int rows, int columns WS_AND_PLACE) {
    const int column = index_of_thread() % kChunks * kWidth;
    const int bytes = bytes_of(columns - column);
    if (column >= kColumns) return;
    const int in_pass = index_of_thread() / kChunks;
#pragma unroll 2
    for (int i = 0; i < kRows; i += kStep) {
      const bool exists = in_pass + i < rows && bytes > 0;
      const T* const source = exists ? from.at(first + in_pass + i) : nullptr;
      ptx::cp_async<16>(to.pointer(piece_at(i)), source == nullptr ? from.base : source + column,
                        source == nullptr ? 0 : bytes WS_PASS_AND_PLACE);
    }
  }

  // kCount rows of the tile from `row` on, of which there are `rows` of `columns` columns, by a
  // warp: lanes write 16 bytes that lie together. to(i) is where the i-th of them goes.
  template <int kCount, class To>
  __device__ __forceinline__ static void write(SharedSpan<T> from, int row, To&& to,
                                               int64_t column_stride, int rows, int columns,
                                               bool aligned WS_AND_PLACE) {
#pragma unroll 4
    for (int at = lane_index(); at < kCount * kChunks; at += kWarpSize) {
      const int i = at / kChunks;
      const int column = at % kChunks * kWidth;
      if (i >= rows || column >= columns) continue;
      T* const chunk_to = to(i) + column * column_stride;
      const auto chunk =
          from.template load<kWidth>(Tile::offset(row + i, column) WS_PASS_AND_PLACE);
      if (aligned && column + kWidth <= columns) {
        thread::store(chunk_to, chunk WS_PASS_AND_PLACE);
      } else {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          if (column + e < columns) {
            thread::store(chunk_to + e * column_stride, chunk[e] WS_PASS_AND_PLACE);
          }
        }
      }
    }
  }

  // What ldmatrix wants from this lane for 16 rows from `row` on and two chunks. The 8 x 8 matrices
  // are counted down, then across, or across, then down.
  enum class Order : bool { kDown, kAcross };
  template <Order kOrder>
  __device__ __forceinline__ static int lane_offset(int row) {
    const int matrix = lane_index() / 8;
    constexpr bool kFirstDown = kOrder == Order::kDown;
    return Tile::offset(row + lane_index() % 8 + (kFirstDown ? matrix % 2 : matrix / 2) * 8,
                        (kFirstDown ? matrix / 2 : matrix % 2) * kWidth);
  }
  // The same `rows` and `columns` further on, multiples of 16 and of two chunks. What is known when
  // compiled is added last, so that it costs no register.
  __device__ __forceinline__ static int further(int offset, int rows, int columns) {
    return Tile::further(offset, columns % kLine) + rows * Tile::kPitch + columns / kLine * kLine;
  }

  __device__ __forceinline__ static int index_of_thread() {
    return kThreads == kWarpSize ? lane_index() : thread_index();
  }
  // Where this thread's piece of the pass from row i on goes.
  __device__ __forceinline__ static int piece_at(int i) {
    return Tile::offset(index_of_thread() / kChunks + i % 8, index_of_thread() % kChunks * kWidth) +
           i / 8 * 8 * Tile::kPitch;
  }
  // Of a chunk before the last `left` elements of a row.
  __device__ __forceinline__ static int bytes_of(int left) {
    return left < 0 ? 0 : left < kWidth ? left * int{sizeof(T)} : 16;
  }
};

}  // namespace ws::attention
