// From the accumulators of wgmma to global memory: each warp alone rounds, stages its 16 rows in
// swizzled shared memory (stmatrix; words as they are, in pairs) and lets the copy engine write
// them, or add them to what is there, while it goes on.
#pragma once

#include <bit>
#include <type_traits>

#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/shuffle.hpp"
#include "warpsmith/ptx/stmatrix.hpp"
#include "warpsmith/ptx/tensor.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::tile {

// Two of f32, rounded to T, the first in the low half.
template <class T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  static_assert(std::is_same_v<T, half> || std::is_same_v<T, bf16>);
  if constexpr (std::is_same_v<T, half>) {
    return ptx::cvt_rn_f16x2_f32(low, high);
  } else {
    return ptx::cvt_rn_bf16x2_f32(low, high);
  }
}

// A ring of kBuffers buffers of 16 rows, one warp's own. A row is a swizzle row: 64, 32 or 16
// elements, of 32 bits half as many. kBatched: for several matrices.
// Pieces of fewer columns, of 16 bits 8 at least, go through the same buffers: of kPiece, where a
// function takes it, with a map that is tensor_map<kPiece>()'s.
template <class T, int kBuffers, int kWidth = 64, bool kBatched = false>
struct WarpStore {
  using Sum = std::conditional_t<std::is_integral_v<T>, T, float>;
  static constexpr int kRows = 16;
  static constexpr int kColumns = kWidth;
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  template <int kPiece>
  static constexpr auto kSwizzle = ptx::swizzle_of_row(kPiece * static_cast<int>(sizeof(T)));
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));  // elements the swizzle moves
  static constexpr int kBufferElements = kRows * kColumns;
  static constexpr int kElements = kBuffers * kBufferElements;  // 1024-byte aligned

  // The map whose boxes put() stores and add() adds: `rows` rows of `columns` elements of T,
  // `leading` apart.
  template <int kPiece = kColumns>
  static ptx::TensorMap tensor_map(const T* data, int64_t rows, int64_t columns, int64_t leading) {
    return ptx::make_tensor_map_2d(data, rows, columns, leading, kRows, kPiece, kSwizzle<kPiece>,
                                   /*is_f32=*/std::is_same_v<T, float>);
  }
  static ptx::TensorMap tensor_map(const T* data, const ptx::MatrixBatch& batch, int64_t rows,
                                   int64_t columns, int64_t leading) {
    static_assert(kBatched);
    return ptx::make_tensor_map_3d(data, batch, rows, columns, leading, kRows, kColumns,
                                   kSwizzle<kColumns>);
  }

  // Rounds the warp's 16 rows of kPiece columns of wgmma's accumulators, kPiece / 2 of a lane,
  // and stores them at (row, column) of the map's matrix, of several the `matrix`-th. The store is
  // under way when this returns.
  template <int kPiece = kColumns>
  __device__ __forceinline__ void put(const ptx::TensorMap& map, int row, int column, const Sum* d,
                                      [[maybe_unused]] int matrix = 0 WS_AND_PLACE) {
    stage_and<kPiece>(d, [&](const T* staged) {
      if constexpr (kBatched) {
        ptx::tensor_store_3d(map, column, row, matrix, staged WS_PASS_AND_PLACE);
      } else {
        ptx::tensor_store_2d(map, column, row, staged WS_PASS_AND_PLACE);
      }
    } WS_PASS_AND_PLACE);
  }

  // The same of words, transposed: the warp's 16 rows become 16 columns of the matrix, from
  // (column, row) on. `map` is transposed_map()'s.
  __device__ __forceinline__ void put_transposed(const ptx::TensorMap& map, int row, int column,
                                                 const Sum* d,
                                                 [[maybe_unused]] int matrix = 0 WS_AND_PLACE) {
    stage_and<kColumns, /*kTransposed=*/true>(d, [&](const T* staged) {
      if constexpr (kBatched) {
        ptx::tensor_store_3d(map, row, column, matrix, staged WS_PASS_AND_PLACE);
      } else {
        ptx::tensor_store_2d(map, row, column, staged WS_PASS_AND_PLACE);
      }
    } WS_PASS_AND_PLACE);
  }
  static ptx::TensorMap transposed_map(const T* data, int64_t rows, int64_t columns,
                                       int64_t leading) {
    return ptx::make_tensor_map_2d(data, rows, columns, leading, kColumns, kRows,
                                   kTransposedSwizzle);
  }
  static ptx::TensorMap transposed_map(const T* data, const ptx::MatrixBatch& batch, int64_t rows,
                                       int64_t columns, int64_t leading) {
    static_assert(kBatched);
    return ptx::make_tensor_map_3d(data, batch, rows, columns, leading, kColumns, kRows,
                                   kTransposedSwizzle);
  }

  // Rounds and stages the warp's rows as put() does; then one lane calls issue(staged), which
  // stores the 16 rows where it likes.
  template <int kPiece = kColumns, bool kTransposed = false, class Issue>
  __device__ __forceinline__ void stage_and(const Sum* d, Issue&& issue WS_AND_PLACE) {
    const int lane = lane_index();
    T* const staged = buffers + buffer * kBufferElements;
    // The copy engine still reads all buffers but the oldest.
    if (lane == 0) ptx::bulk_wait_group_read<kBuffers - 1>();
    ptx::syncwarp();
    if constexpr (kTransposed) {
      stage_transposed(staged, d WS_PASS_AND_PLACE);
    } else {
      stage<kPiece>(staged, d WS_PASS_AND_PLACE);
    }
    ptx::fence_proxy_async();
    ptx::syncwarp();
    if (lane == 0) {
      issue(staged);
      ptx::bulk_commit_group();
    }
    buffer = buffer + 1 == kBuffers ? 0 : buffer + 1;
  }

  // The same, but adds them to the matrix of f32: L2 does, and nobody reads it.
  __device__ __forceinline__ void add(const ptx::TensorMap& map, int row, int column,
                                      const float* d WS_AND_PLACE) {
    static_assert(std::is_same_v<T, float>);
    stage_and(d, [&](const T* staged) {
      ptx::tensor_add_2d_f32(map, column, row, staged WS_PASS_AND_PLACE);
    } WS_PASS_AND_PLACE);
  }

  // The same to any place in memory, by the lanes: rows of `columns` elements, `leading` apart,
  // that start anywhere.
  __device__ __forceinline__ void write(T* to, int64_t leading, int rows, int columns,
                                        const Sum* d WS_AND_PLACE) const {
    const int lane = lane_index();
    stage<kColumns>(buffers, d WS_PASS_AND_PLACE);
    ptx::syncwarp();
    const SharedSpan<T> staged{buffers, kBufferElements};
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int column = lane; column < kColumns; column += kWarpSize) {
        if (row < rows && column < columns) {
          const auto chunk = ptx::swizzled_chunk<kSwizzle<kColumns>>(
              static_cast<uint32_t>(row), static_cast<uint32_t>(column / kChunk));
          const T value = staged[chunk / sizeof(T) + column % kChunk];
          thread::store(to + row * leading + column, value WS_PASS_AND_PLACE);
        }
      }
    }
    ptx::syncwarp();  // all lanes have read
  }

  // The same, of 16 bits, by words of 4 bytes. A row may begin between two words: then a lane has
  // the second of one pair and the first of the next, and the row's first and last are alone.
  __device__ __forceinline__ void write_words(T* to, int64_t leading, int rows, int columns,
                                              const Sum* d WS_AND_PLACE) const {
    static_assert(sizeof(T) == 2 && kColumns == 2 * kWarpSize);
    stage<kColumns>(buffers, d WS_PASS_AND_PLACE);
    ptx::syncwarp();
    const SharedSpan<T> staged{buffers, kBufferElements};
    const int lane = lane_index();
    // Every second row begins as the first does.
    struct Way {
      T* at;           // of the lane's word
      bool is_pair;    // whether it stores a word
      bool is_single;  // or its first half
      bool is_first;   // or, too, the element before it
      uint32_t bytes;  // of two pairs
    };
    Way ways[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      T* const begin = to + i * leading;
      const bool is_between = reinterpret_cast<uintptr_t>(begin) % 4 != 0;
      const int first = 2 * lane + (is_between ? 1 : 0);
      const bool is_pair = first + 1 < columns && first + 1 < kColumns;
      ways[i] = {begin + first, is_pair, first < columns && !is_pair, is_between && lane == 0,
                 is_between ? 0x5432u : 0x3210u};
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (row >= rows) break;
      Way& way = ways[row % 2];
      const auto chunk = ptx::swizzled_chunk<kSwizzle<kColumns>>(
          static_cast<uint32_t>(row), static_cast<uint32_t>(lane / (kChunk / 2)));
      const auto pair = std::bit_cast<uint32_t>(
          staged.template load<2>(chunk / sizeof(T) + lane % (kChunk / 2) * 2));
      const uint32_t next = ptx::shfl_sync_down(kFullMask, pair, 1);
      const auto word = std::bit_cast<Vec<T, 2>>(ptx::permute_bytes(pair, next, way.bytes));
      if (way.is_pair) thread::store(way.at, word WS_PASS_AND_PLACE);
      if (way.is_single) thread::store(way.at, word[0] WS_PASS_AND_PLACE);
      if (way.is_first) {
        thread::store(way.at - 1, std::bit_cast<Vec<T, 2>>(pair)[0] WS_PASS_AND_PLACE);
      }
      way.at += 2 * leading;
    }
    ptx::syncwarp();  // all lanes have read
  }

  // The same to rows that begin at multiples of 16 bytes and have whole ones: 16 bytes of a lane.
  __device__ __forceinline__ void write_chunks(T* to, int64_t leading, int64_t rows, int columns,
                                               const Sum* d WS_AND_PLACE) const {
    constexpr int kChunks = kColumns / kChunk;
    const int lane = lane_index();
    stage<kColumns>(buffers, d WS_PASS_AND_PLACE);
    ptx::syncwarp();
    const SharedSpan<T> staged{buffers, kBufferElements};
    const int column = lane % kChunks * kChunk;
#pragma unroll
    for (int first = 0; first < kRows; first += kWarpSize / kChunks) {
      const int row = first + lane / kChunks;
      if (row < rows && column < columns) {
        const auto chunk = ptx::swizzled_chunk<kSwizzle<kColumns>>(
            static_cast<uint32_t>(row), static_cast<uint32_t>(column / kChunk));
        thread::store(to + row * leading + column,
                      staged.template load<kChunk>(chunk / sizeof(T)) WS_PASS_AND_PLACE);
      }
    }
    ptx::syncwarp();  // all lanes have read
  }

  // Waits until all stores are done: before the block exits.
  __device__ __forceinline__ void finish() const {
    if (lane_index() == 0) ptx::bulk_wait_group<0>();
    ptx::syncwarp();
  }

  T* buffers;
  int buffer = 0;

 private:
  static constexpr auto kTransposedSwizzle = ptx::Swizzle::k64;

  // kColumns rows of 16 words. The four lanes that have a row of the warp write to rows two apart,
  // all in the same half of the banks; so those that have its upper columns of chunks take the two
  // of a pair in the other order.
  __device__ __forceinline__ static void stage_transposed(T* staged, const Sum* d WS_AND_PLACE) {
    static_assert(sizeof(T) == 4 && kRows * 4 == ptx::swizzle_row_bytes(kTransposedSwizzle));
    const SharedSpan<T> to{staged, kBufferElements};
    const int lane = lane_index();
    const int flip = lane / 16;
#pragma unroll
    for (int i = 0; i < kColumns / 2; i += 2) {  // pairs: of a row, of the row 8 below it, ...
      const auto column = static_cast<uint32_t>(lane / 4 + i / 2 % 2 * 8);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const auto row = static_cast<uint32_t>(i / 4 * 8 + lane % 4 * 2 + (j ^ flip));
        const uint32_t chunk = ptx::swizzled_chunk<kTransposedSwizzle>(row, column / kChunk);
        const T value = flip != 0 ? d[i + 1 - j] : d[i + j];
        to.template store<1>(chunk / sizeof(T) + column % kChunk,
                             Vec<T, 1>{value} WS_PASS_AND_PLACE);
      }
    }
  }

  template <int kPiece>
  __device__ __forceinline__ static void stage(T* staged, const Sum* d WS_AND_PLACE) {
    static_assert(kPiece <= kColumns);
    const int lane = lane_index();
    if constexpr (sizeof(T) == 2 && kPiece == 8) {  // rows of one chunk meet no bank conflict
      const uint32_t matrices[2] = {pack<T>(d[0], d[1]), pack<T>(d[2], d[3])};
      ptx::stmatrix_x2(reinterpret_cast<char*>(staged) + lane % 16 * 16,
                       matrices WS_PASS_AND_PLACE);
    } else if constexpr (sizeof(T) == 4) {
      static_assert(kSwizzle<kPiece> != ptx::Swizzle::kNone);
      const SharedSpan<T> to{staged, kBufferElements};
#pragma unroll
      for (int i = 0; i < kPiece / 2; i += 2) {  // pairs: of a row, of the row 8 below it, ...
        const auto row = static_cast<uint32_t>(lane / 4 + i / 2 % 2 * 8);
        const auto column = static_cast<uint32_t>(i / 4 * 8 + lane % 4 * 2);
        const uint32_t chunk = ptx::swizzled_chunk<kSwizzle<kPiece>>(row, column / kChunk);
        to.template store<2>(chunk / sizeof(T) + column % kChunk,
                             Vec<T, 2>{d[i], d[i + 1]} WS_PASS_AND_PLACE);
      }
    } else {
      static_assert(kSwizzle<kPiece> != ptx::Swizzle::kNone);
#pragma unroll
      for (int i = 0; i < kPiece / 16; ++i) {
        const float* from = d + i * 8;  // 16 columns: matrices of 8 x 8, two down, two across
        const uint32_t matrices[4] = {pack<T>(from[0], from[1]), pack<T>(from[2], from[3]),
                                      pack<T>(from[4], from[5]), pack<T>(from[6], from[7])};
        ptx::stmatrix_x4(
            reinterpret_cast<char*>(staged) +
                ptx::swizzled_chunk<kSwizzle<kPiece>>(static_cast<uint32_t>(lane % 16),
                                                      static_cast<uint32_t>(i * 2 + lane / 16)),
            matrices WS_PASS_AND_PLACE);
      }
    }
  }
};

}  // namespace ws::tile
