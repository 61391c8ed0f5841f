// Cut: how a row of any length and alignment is taken in accesses of several elements.
#pragma once

#include <cstdint>

#include "warpsmith/device.hpp"

namespace ws::row {

// The most elements that one access of 16 bytes holds.
template <class T>
inline constexpr int kWidest = static_cast<int>(16 / sizeof(T));

// What is known of a row while compiling.
enum class Fit {
  kAnywhere,
  kAligned,  // operands start at a multiple of the vector, rows are whole vectors
  kFull,     // and fill the threads that hold it
};

#if WS_DEVICE_CODE

// A row cut for accesses of kWidth elements: up to kWidth - 1 elements before the first aligned
// vector, whole vectors, up to kWidth - 1 elements after the last. All operands are cut alike:
// rows_supported() asks that they be aligned alike. Only rows of Fit::kAnywhere have edges, and
// instructions for them.
template <int kWidth, Fit kFit = Fit::kAnywhere>
struct Cut {
  int head;   // elements before the vectors
  int edges;  // in no vector, both ends
  int64_t vectors;
  int64_t body;  // elements between the edges

  // Of a row of `columns` elements that starts at `start` in one of its operands.
  template <class T>
  __device__ __forceinline__ Cut(const T* start, int64_t columns) {
    head = 0;
    if constexpr (kFit == Fit::kAnywhere) {
      const auto misaligned =
          static_cast<int>(reinterpret_cast<uintptr_t>(start) / sizeof(T)) & (kWidth - 1);
      head = misaligned == 0 ? 0 : kWidth - misaligned;
      head = static_cast<int>(head < columns ? head : columns);
    }
    vectors = (columns - head) / kWidth;
    body = vectors * kWidth;
    edges = kFit != Fit::kAnywhere ? 0 : static_cast<int>(columns - body);
  }

  // Keeps part `index` of those of `share` vectors (part_vectors() of catalogue/row_layout.hpp);
  // the edges go with part 0. Returns how many elements each operand's pointer has to move.
  __device__ __forceinline__ int64_t keep_part(int index, int64_t share) {
    const int64_t first = share * index < vectors ? share * index : vectors;
    vectors = share < vectors - first ? share : vectors - first;
    if (index > 0) edges = 0;
    return first * kWidth;
  }

  // Keeps nothing.
  __device__ __forceinline__ void clear() {
    vectors = 0;
    edges = 0;
  }

  // Index in the row of a vector's first element, and of the i-th element that is in no vector.
  __device__ __forceinline__ int64_t at(int64_t vector) const { return head + vector * kWidth; }
  __device__ __forceinline__ int64_t edge(int i) const { return i < head ? i : i + body; }
};

#endif

}  // namespace ws::row
