// A tile of an operand whose rows start anywhere, from global memory to where wgmma reads it.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/gemm/batched.hpp"
#include "warpsmith/ptx/prefetch.hpp"
#include "warpsmith/ptx/swizzle.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/realign.hpp"

namespace ws::gemm {

// An operand of a batch: runs of elements, and where the first and the last of all lie.
template <class T>
struct ShiftedOperand {
  const T* data = nullptr;
  const T* begin = nullptr;
  const T* end = nullptr;
  int64_t leading = 0;
  int64_t batch = 0;
  int runs = 0;
  int length = 0;

  static ShiftedOperand of(const BatchedCall& call, const Matrix& matrix) {
    const T* const data = matrix.as<const T>();
    const int64_t last_matrix = (matrices_of_operand(call, matrix) - 1) * matrix.batch;
    const int64_t last_run = (matrix.runs - 1) * matrix.leading;
    const T* const begin =
        data + std::min<int64_t>(last_matrix, 0) + std::min<int64_t>(last_run, 0);
    const T* const end =
        data + std::max<int64_t>(last_matrix, 0) + std::max<int64_t>(last_run, 0) + matrix.length;
    return {data,
            begin,
            end,
            matrix.leading,
            matrix.batch,
            static_cast<int>(matrix.runs),
            static_cast<int>(matrix.length)};
  }
};

#if WS_DEVICE_CODE
// Of a thread: its vectors of an operand's tile in a stage. Eight lanes take the 128 bytes of a
// swizzle row, and all passes of a thread rows that are a multiple of 16 apart: how far into its
// first piece a vector begins is the same for all, and so is where in its row it is stored.
template <class T, class Stage, int kThreads>
struct ShiftedTile {
  static constexpr int kWidth = 8;
  static constexpr int kDown = kThreads / 8;
  static constexpr int kPasses = Stage::kElements / kWidth / kThreads;
  static constexpr int kOuter = Stage::kElements / 64;
  static_assert(kDown % 16 == 0 && 64 % kDown == 0 && Stage::kElements == kPasses * 8 * kThreads);
  using Words = Vec<uint32_t, 4>;

  const ShiftedOperand<T>& of;
  const T* matrix;
  int row, column;      // of the thread in a tile
  int outer = 0;        // where the tile begins
  uint32_t before = 0;  // bytes of a vector's first piece that come before it
  bool inside = false;  // is_inside() of all slices
  Words low[kPasses];
  Words high[kPasses];

  __device__ __forceinline__ ShiftedTile(const ShiftedOperand<T>& operand, int thread)
      : of(operand), matrix(operand.data), row(thread / 8), column(thread % 8 * kWidth) {}

  __device__ __forceinline__ void begin(int matrix_index, int first) {
    matrix = of.data + matrix_index * of.batch;
    outer = first;
    const T* const first_row = matrix + (Stage::kKMajor ? first + row : row) * of.leading;
    before = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(first_row) % 16);
    inside = Stage::kKMajor ? is_inside(outer, outer + kOuter, 0, last_column() + kWidth)
                            : is_inside(0, of.runs, outer, outer + kOuter);
  }

  // Where pass i's vector of the slice at k is: a row and a column of the matrix of runs.
  __device__ __forceinline__ int row_of(int i, int k) const {
    return Stage::kKMajor ? outer + row + i * kDown : k + row + i * kDown % 64;
  }
  __device__ __forceinline__ int column_of(int i, int k) const {
    return Stage::kKMajor ? k + column : outer + i * kDown / 64 * 64 + column;
  }
  __device__ __forceinline__ static int least(int a, int b) { return a < b ? a : b; }
  __device__ __forceinline__ int last_column() const { return (of.length - 1) / kWidth * kWidth; }

  // Whether all pieces of the slice lie between the first element of all and the last: they may
  // then be loaded whole, whatever is beside the rows.
  __device__ __forceinline__ bool is_inside(int k) const {
    return inside || (Stage::kKMajor ? is_inside(outer, outer + kOuter, k, k + 64)
                                     : is_inside(k, k + 64, outer, outer + kOuter));
  }
  __device__ __forceinline__ bool is_inside(int first_row, int end_row, int first_column,
                                            int end_column) const {
    const int last_row = least(end_row, of.runs) - 1;
    const int last = least(end_column - kWidth, last_column());
    // Rows may lie in reverse.
    const T* const one = matrix + first_row * of.leading;
    const T* const other = matrix + last_row * of.leading;
    return (one < other ? one : other) + first_column - (kWidth - 1) >= of.begin &&
           (one < other ? other : one) + last + 2 * kWidth <= of.end;
  }

  // Rows and vectors outside are other ones that are there: what they give is not stored, or
  // becomes 0 where it is beyond K. Of a slice that is not inside, pieces that are not are left
  // out.
  template <bool kInside>
  __device__ __forceinline__ void load(int i, int k) {
    const T* const piece = piece_of(i, k);
    if (kInside || is_inside(piece)) low[i] = std::bit_cast<Words>(thread::load<kWidth>(piece));
    if (before != 0 && (kInside || is_inside(piece + kWidth))) {
      high[i] = std::bit_cast<Words>(thread::load<kWidth>(piece + kWidth));
    }
  }
  __device__ __forceinline__ const T* piece_of(int i, int k) const {
    const T* const from = matrix + least(row_of(i, k), of.runs - 1) * of.leading +
                          least(column_of(i, k), last_column());
    return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15});
  }
  __device__ __forceinline__ bool is_inside(const T* piece) const {
    return piece >= of.begin && piece + kWidth <= of.end;
  }
  // Stores the vectors again of which a piece was left out: an element at a time, none that is
  // outside.
  __device__ __forceinline__ void store_elements(T* stage, int k) const {
#pragma unroll 1
    for (int i = 0; i < kPasses; ++i) {
      const T* const piece = piece_of(i, k);
      if (is_inside(piece) && (before == 0 || is_inside(piece + kWidth))) continue;
      const int from_row = row_of(i, k);
      const int from_column = column_of(i, k);
      Vec<T, kWidth> vector{};
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (from_row < of.runs && from_column + e < of.length) {
          vector[e] = thread::load(matrix + from_row * of.leading + from_column + e);
        }
      }
      store(stage, i, std::bit_cast<Words>(vector));
    }
  }

  // By one thread: asks L2 for what a whole tile reads, where that lies together.
  __device__ __forceinline__ void prefetch(int matrix_index, int first) const {
    constexpr int64_t kMost = 64 * 1024;  // elements: 132 such of both operands are 35 MB
    const int end = least(first + kOuter, Stage::kKMajor ? of.runs : of.length);
    const int first_row = Stage::kKMajor ? first : 0;
    const int first_column = Stage::kKMajor ? 0 : first;
    const int rows = Stage::kKMajor ? end - first : of.runs;
    const int columns = Stage::kKMajor ? of.length : end - first;
    const int64_t span = (rows - 1) * of.leading + columns;
    if (span > kMost || span > 2 * int64_t{rows} * columns) return;
    const auto from = reinterpret_cast<uintptr_t>(of.data + matrix_index * of.batch +
                                                  first_row * of.leading + first_column);
    const uintptr_t begin = (from + 15) / 16 * 16;
    const uintptr_t stop = (from + span * sizeof(T)) / 16 * 16;
    if (stop <= begin) return;
    ptx::bulk_prefetch(reinterpret_cast<const void*>(begin), static_cast<uint32_t>(stop - begin));
  }

  // The last slice may end beyond K: what is there becomes 0 in both operands.
  template <bool kLast>
  __device__ __forceinline__ void store(T* stage, int i, int k) const {
    Words words = thread::realign<sizeof(T)>(low[i], high[i], before);
    if constexpr (kLast && Stage::kKMajor) {
      const int left = of.length - column_of(i, k);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        words[w] = left >= 2 * w + 2 ? words[w] : left > 2 * w ? words[w] & 0xFFFF : 0;
      }
    } else if constexpr (kLast) {
      if (row_of(i, k) >= of.runs) words = {};
    }
    store(stage, i, words);
  }
  __device__ __forceinline__ void store(T* stage, int i, const Words& words) const {
    const auto chunk = ptx::swizzled_chunk<ptx::Swizzle::k128>(
        static_cast<uint32_t>(row + i * kDown), static_cast<uint32_t>(column / kWidth));
    const SharedSpan<T> to{stage, Stage::kElements};
    to.template store<kWidth>(static_cast<int>(chunk / sizeof(T)),
                              std::bit_cast<Vec<T, kWidth>>(words));
  }
};
#endif

}  // namespace ws::gemm
