// f32 tiles in shared memory and the products of two of them, for the rungs that multiply on the
// CUDA cores: 256 threads stand as 16 x 16, and each has 4 rows of sums in registers.
#pragma once

#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

inline constexpr int kTileRows = 64;
inline constexpr int kTileThreads = 256;

// Four floats more than a row has lie from one row to the next, so that eight lanes that read 16
// bytes at one place of eight rows meet different banks.
template <int kRows, int kColumns>
struct SharedTile {
  static constexpr int kPitch = kColumns + 4;
  SharedArray<float, kRows * kPitch> memory;

  // From rows that lie `pitch` apart; what is beyond `rows` and `columns` is zero.
  template <class T>
  __device__ __forceinline__ void fill(const T* from, int64_t pitch, int64_t rows,
                                       int64_t columns WS_AND_PLACE) {
    constexpr int kStep = kTileThreads / kColumns;  // a thread stays in its column
    const int column = thread_index() % kColumns;
    const int first = thread_index() / kColumns;
    const auto end = static_cast<int>(column >= columns ? 0 : rows < kRows ? rows : kRows);
    from += first * pitch + column;
#pragma unroll 4
    for (int row = first; row < kRows; row += kStep, from += kStep * pitch) {
      memory[row * kPitch + column] =
          row < end ? to_float(thread::load(from WS_PASS_AND_PLACE)) : 0.0F;
    }
  }
  __device__ __forceinline__ Vec<float, 4> four(int row, int column) {
    return memory.template load<4>(row * kPitch + column);
  }
};

// This thread's rows, and the row of threads that it stands in: neighbouring lanes, 16 of them.
__device__ __forceinline__ int tile_row(int i) { return thread_index() / 16 * 4 + i; }

// Columns of sums of rows by rows, the scores: 16 apart, so that lanes read neighbouring keys.
__device__ __forceinline__ int score_column(int j) { return thread_index() % 16 + j * 16; }

// Columns of sums of rows by columns, the output: four neighbours, then 64 further on.
__device__ __forceinline__ int out_column(int c) {
  return thread_index() % 16 * 4 + c / 4 * 64 + c % 4;
}

// This block's 64 rows of a matrix, and 64 columns; blocks go along columns first.
struct TilePlace {
  int64_t matrix, row, column;
};
__device__ __forceinline__ TilePlace tile_place(int64_t rows, int64_t columns) {
  const int64_t down = divide_up(rows, kTileRows);
  const int64_t across = divide_up(columns, kTileRows);
  return {block_index() / across / down, block_index() / across % down * kTileRows,
          block_index() % across * kTileRows};
}

// Sums to rows that lie `pitch` apart, of which `rows` are there, and `columns` of each.
template <class T, int kCount>
__device__ __forceinline__ void store_sums(T* to, int64_t pitch, int64_t rows, int64_t columns,
                                           const float (&sums)[4][kCount],
                                           int (*column)(int) WS_AND_PLACE) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (tile_row(i) >= rows || column(j) >= columns) continue;
      thread::store(to + tile_row(i) * pitch + column(j),
                    from_float<T>(sums[i][j]) WS_PASS_AND_PLACE);
    }
  }
}

// sums[i][j] += <row tile_row(i) of a, row score_column(j) of b>
template <int kDepth>
__device__ __forceinline__ void add_dots(float (&sums)[4][4], SharedTile<kTileRows, kDepth>& a,
                                         SharedTile<kTileRows, kDepth>& b) {
#pragma unroll 1
  for (int d = 0; d < kDepth; d += 4) {
    Vec<float, 4> of_a[4];
    Vec<float, 4> of_b[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) of_a[i] = a.four(tile_row(i), d);
#pragma unroll
    for (int j = 0; j < 4; ++j) of_b[j] = b.four(score_column(j), d);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j] += of_a[i][e] * of_b[j][e];
      }
    }
  }
}

// sums[i][c] += <row tile_row(i) of a, column out_column(c) of b>
template <int kDepth, int kColumns>
__device__ __forceinline__ void add_product(float (&sums)[4][kColumns / 16],
                                            SharedTile<kTileRows, kDepth>& a,
                                            SharedTile<kDepth, kColumns>& b) {
#pragma unroll 1
  for (int p = 0; p < kDepth; p += 4) {
    Vec<float, 4> of_a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) of_a[i] = a.four(tile_row(i), p);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int c = 0; c < kColumns / 16; c += 4) {
        const Vec<float, 4> of_b = b.four(p + e, out_column(c));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int f = 0; f < 4; ++f) sums[i][c + f] += of_a[i][e] * of_b[f];
        }
      }
    }
  }
}

}  // namespace ws::attention
#endif
