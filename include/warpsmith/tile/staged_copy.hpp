// Tiles of matrices in shared memory, among them those of 16 bits as ldmatrix reads them, and their
// copies from global memory.
//
// A tile is kRuns runs of kLength consecutive elements: rows where the matrix is stored row by row,
// columns where it is stored transposed.
#pragma once

#include <algorithm>
#include <type_traits>

#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::tile {

// Where an element lies. The 16-byte chunks of a run are permuted by the run's number, so that
// eight runs' chunks of one column, which one ldmatrix phase reads, lie in different banks; runs of
// 64 bytes lie two in a line of the banks. So 16, 32 or 48 elements further along a line of 64 is
// an xor: offset(r, e + 16) = offset(r, e) ^ 16 where e / 16 is even. kChunkOf: elements in 16
// bytes.
template <int kRuns, int kLength, int kChunkOf = 8>
struct SwizzledTile {
  static constexpr int kChunk = kChunkOf;
  static constexpr int kAmong = kLength == 4 * kChunk ? 4 : 8;  // chunks that are permuted
  static_assert(kLength % (kAmong * kChunk) == 0, "the permutation stays inside a run");

  static constexpr int kElements = kRuns * kLength;
  static constexpr int kPitch = kLength;  // from run to run
  __host__ __device__ static constexpr int offset(int run, int element) {
    return run * kLength + ((element / kChunk) ^ (run / (8 / kAmong) % kAmong)) * kChunk +
           element % kChunk;
  }
  // An offset of the same run, some pairs of chunks further on, from one whose element is in the
  // first pair of the chunks that are permuted together.
  __host__ __device__ static constexpr int further(int offset, int elements) {
    return offset ^ elements;
  }
};

// The same without permuting anything: 16 bytes after each run, eight elements of 16 bits, put the
// chunks of one column of eight runs into different banks.
template <int kRuns, int kLength, int kPadding = 8>
struct PaddedTile {
  static constexpr int kPitch = kLength + kPadding;
  static_assert(kLength % (2 * kPadding) == 0, "an odd number of chunks from run to run");

  static constexpr int kElements = kRuns * kPitch;
  __host__ __device__ static constexpr int offset(int run, int element) {
    return run * kPitch + element;
  }
  __host__ __device__ static constexpr int further(int offset, int elements) {
    return offset + elements;
  }
};

// Runs cut into panels of kWidth elements; the parts of a panel's runs follow one another.
template <int kRuns, int kLength, int kWidth>
struct PanelTile {
  static_assert(kLength % kWidth == 0 && kWidth % 8 == 0, "16-byte pieces stay together");

  static constexpr int kElements = kRuns * kLength;
  static constexpr int kPitch = kWidth;
  __host__ __device__ static constexpr int offset(int run, int element) {
    return (element / kWidth * kRuns + run) * kWidth + element % kWidth;
  }
};

// An operand of a matrix product, copied tile after tile along K by all kThreads threads of a
// block. A tile is kOuter rows of A or columns of B by kK; its runs lie along K, or along the outer
// dimension. What the matrix does not have is filled with zeros. TileIn says where in shared memory
// an element lies: 16 bytes that are aligned in a run are together there too.
template <class T, bool kRunsAlongK, int kOuter, int kK, int kThreads,
          class TileIn = SwizzledTile<kRunsAlongK ? kOuter : kK, kRunsAlongK ? kK : kOuter>>
struct OperandCursor {
  static constexpr int kRuns = kRunsAlongK ? kOuter : kK;
  static constexpr int kLength = kRunsAlongK ? kK : kOuter;
  using Tile = TileIn;

  // From row or column `first` of the matrix on, which has `outer` of them and `k` of K, in runs
  // `leading` elements apart that start at multiples of `bytes`. Copies are of `bytes`, 16, 4 or 2.
  __device__ __forceinline__ OperandCursor(const T* matrix, int leading_stride, int first,
                                           int outer, int k, int bytes)
      : base(matrix),
        next(matrix + first * (kRunsAlongK ? int64_t{leading_stride} : 1)),
        leading(leading_stride),
        outer_left(std::min(int{kOuter}, outer - first)),
        k_left(k) {
    const int per_run = kLength * static_cast<int>(sizeof(T)) / bytes;
    next += int64_t{thread_index() / per_run} * leading +
            thread_index() % per_run * (bytes / static_cast<int>(sizeof(T)));
  }

  // Copies the next tile; 16 and 4 bytes are in flight until cp_async_wait_group.
  template <int kBytes>
  __device__ __forceinline__ void copy(SharedSpan<T> shared WS_AND_PLACE) {
    if (outer_left == kOuter && k_left >= kK) {
      copy_pieces<kBytes, true>(shared WS_PASS_AND_PLACE);
    } else {
      copy_pieces<kBytes, false>(shared WS_PASS_AND_PLACE);
    }
    next += kRunsAlongK ? int64_t{kK} : int64_t{leading} * kK;
    k_left -= kK;
  }

  const T* base;
  const T* next;  // this thread's first piece of the next tile
  int leading;
  int outer_left;
  int k_left;

 private:
  template <int kBytes, bool kWhole>
  __device__ __forceinline__ void copy_pieces(SharedSpan<T> shared WS_AND_PLACE) const {
    constexpr int kPiece = kBytes / static_cast<int>(sizeof(T));
    constexpr int kPerRun = kLength / kPiece;
    static_assert(kThreads % kPerRun == 0, "a thread keeps its place in the run");
    constexpr int kStep = kThreads / kPerRun;
    static_assert(kRuns % kStep == 0);
    const int first = thread_index() % kPerRun * kPiece;
    const int run = thread_index() / kPerRun;
    const int runs = kRunsAlongK ? outer_left : k_left;
    const int length = kRunsAlongK ? k_left : outer_left;
    // The pointer walks: an address for each copy would cost registers all kernel long.
    const T* source = next;
    if constexpr (kBytes < 4) {
      static_assert(kBytes == sizeof(T));
      // No asynchronous copy is this narrow. Loads go out in batches before the first store.
      constexpr int kBatch = 16 < kRuns / kStep ? 16 : kRuns / kStep;
#pragma unroll 1
      for (int i = 0; i < kRuns; i += kBatch * kStep) {
        T values[kBatch];
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          const bool exists = kWhole || (first < length && run + i + j * kStep < runs);
          values[j] = exists ? thread::load(source WS_PASS_AND_PLACE) : T{};
          source += int64_t{leading} * kStep;
        }
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
          shared[{Tile::offset(run + i + j * kStep, first) WS_PASS_AND_PLACE}] = values[j];
        }
      }
    } else if constexpr (kWhole) {
#pragma unroll
      for (int i = 0; i < kRuns; i += kStep) {
        ptx::cp_async<kBytes>(shared.pointer(Tile::offset(run + i, first)), source,
                              kBytes WS_PASS_AND_PLACE);
        source += int64_t{leading} * kStep;
      }
    } else {
      const int bytes = std::clamp(length - first, 0, kPiece) * static_cast<int>(sizeof(T));
#pragma unroll 1
      for (int i = 0; i < kRuns; i += kStep) {
        const bool exists = bytes > 0 && run + i < runs;
        ptx::cp_async<kBytes>(shared.pointer(Tile::offset(run + i, first)), exists ? source : base,
                              exists ? bytes : 0 WS_PASS_AND_PLACE);
        source += int64_t{leading} * kStep;
      }
    }
  }
};

// The next tiles of A and B, if there are any, by copies of kBytes.
template <int kBytes, class CursorA, class CursorB, class T>
__device__ __forceinline__ void copy_both(CursorA& a, SharedSpan<T> to_a, CursorB& b,
                                          SharedSpan<T> to_b WS_AND_PLACE) {
  if (a.k_left <= 0) return;
  a.template copy<kBytes>(to_a WS_PASS_AND_PLACE);
  b.template copy<kBytes>(to_b WS_PASS_AND_PLACE);
}
// ... of `bytes`: 16, 4 or those of an element.
template <class CursorA, class CursorB, class T>
__device__ __forceinline__ void copy_both(CursorA& a, SharedSpan<T> to_a, CursorB& b,
                                          SharedSpan<T> to_b, int bytes WS_AND_PLACE) {
  if (bytes == 16) {
    copy_both<16>(a, to_a, b, to_b WS_PASS_AND_PLACE);
  } else if (bytes == 4 || sizeof(T) == 4) {
    copy_both<4>(a, to_a, b, to_b WS_PASS_AND_PLACE);
  } else {
    copy_both<sizeof(T)>(a, to_a, b, to_b WS_PASS_AND_PLACE);
  }
}

}  // namespace ws::tile
