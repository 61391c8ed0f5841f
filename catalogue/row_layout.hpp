// RowLayout: where the rows of a call's tensors lie, for operations on the last dimension.
#pragma once

#include <array>
#include <span>
#include <type_traits>

#include "catalogue/catalogue.hpp"
#include "catalogue/problem.hpp"
#include "warpsmith/device.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws {

// Of up to kMost tensors of one shape (broadcast() gives them one): element (row, i) of operand k
// is at data[k] + offset(k, row) + i * inner[k], in elements. Outer dimensions that all operands
// walk through evenly are one. A tensor that does not exist has size 0 and no data.
template <int kMost>
struct RowLayout {
  static constexpr int kMaxOuter = kMaxRank - 1;

  int64_t rows = 1;
  int64_t columns = 1;
  int operands = 0;
  int outer = 0;  // dimensions; 0 where there is one row
  std::array<int64_t, kMaxOuter> extents{};
  std::array<std::array<int64_t, kMaxOuter>, kMost> strides{};
  std::array<int64_t, kMost> inner{};
  std::array<void*, kMost> data{};
  std::array<int64_t, kMost> size{};  // of an element, in bytes

  // Elements from the start of operand k to the start of a row in it.
  __host__ __device__ __forceinline__ int64_t offset(int operand, int64_t row) const {
    int64_t offset = 0;
    for (int d = outer - 1; d >= 0; --d) {
      offset += row % extents[d] * strides[operand][d];
      row /= extents[d];
    }
    return offset;
  }
  // From row to row, where there is at most one outer dimension.
  int64_t stride(int k) const { return strides[static_cast<size_t>(k)][0]; }
  template <class T>
  T* as(int k) const {
    return static_cast<T*>(data[static_cast<size_t>(k)]);
  }
  // Of a row of operand 0.
  int64_t row_bytes() const { return columns * size[0]; }
};

// Of tensors[0], which exists, and others of its shape.
template <int kMost>
RowLayout<kMost> row_layout(std::span<const Tensor* const> tensors) {
  RowLayout<kMost> layout;
  const Tensor& shape = *tensors[0];
  layout.operands = static_cast<int>(tensors.size());
  const int last = shape.rank - 1;
  if (last >= 0) layout.columns = shape.extent(last);
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& tensor = *tensors[k];
    // A row of one element has no stride of its own: torch leaves any number there.
    layout.inner[k] = layout.columns > 1 && tensor.exists() ? tensor.stride(last) : 1;
    layout.data[k] = tensor.data;
    layout.size[k] = tensor.exists() ? static_cast<int64_t>(size_of(tensor.dtype)) : 0;
  }
  for (size_t d = 0; static_cast<int>(d) < last; ++d) {
    const int64_t extent = shape.shape[d];
    layout.rows *= extent;
    if (extent == 1) continue;
    bool even = layout.outer > 0;
    for (size_t k = 0; k < tensors.size() && even; ++k) {
      even = layout.strides[k][static_cast<size_t>(layout.outer - 1)] ==
             tensors[k]->strides[d] * extent;
    }
    if (!even) layout.extents[static_cast<size_t>(layout.outer++)] = 1;
    const auto at = static_cast<size_t>(layout.outer - 1);
    layout.extents[at] *= extent;
    for (size_t k = 0; k < tensors.size(); ++k) layout.strides[k][at] = tensors[k]->strides[d];
  }
  return layout;
}
// row_layout(x, out): of as many operands.
template <class... Tensors>
RowLayout<static_cast<int>(1 + sizeof...(Tensors))> row_layout(const Tensor& first,
                                                               const Tensors&... others) {
  const Tensor* const all[] = {&first, &others...};
  return row_layout<static_cast<int>(1 + sizeof...(Tensors))>(std::span(all));
}

inline constexpr int64_t kMostBlocks = 0x7FFFFFFF;  // of a launch

// Elements from the multiple of `width` below an operand's first element to it: that many are
// missing to a whole vector.
template <int kMost>
int64_t misaligned(const RowLayout<kMost>& layout, size_t k, int64_t width) {
  return reinterpret_cast<int64_t>(layout.data[k]) / layout.size[k] & (width - 1);
}

// Whether a kernel that gives a block (or less) to each row can take the rows in accesses of
// `width` elements, a power of two: elements side by side, rows at one stride, and all operands cut
// alike by row::Cut, that is, at a multiple of the vector after the same number of elements.
template <int kMost>
bool rows_supported(const RowLayout<kMost>& layout, int width, Why& why) {
  if (!why.unless(layout.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows, not ",
                  layout.rows) ||
      !why.unless(layout.outer <= 1, "takes rows at one stride, not along ", layout.outer,
                  " dimensions that are walked through unevenly")) {
    return false;
  }
  const int64_t first = misaligned(layout, 0, width);
  for (size_t k = 0; static_cast<int>(k) < layout.operands; ++k) {
    if (layout.size[k] == 0) continue;
    const int64_t here = misaligned(layout, k, width);
    const int64_t stride = layout.strides[k][0] - layout.strides[0][0];
    if (!why.unless(layout.inner[k] == 1, "takes elements side by side, not ", layout.inner[k],
                    " apart (operand ", k, ")") ||
        !why.unless(here == first && (stride & (width - 1)) == 0, "accesses ", width,
                    " elements at a time, but operands 0 and ", k, " start ", first, " and ", here,
                    " elements past a multiple of that, with rows ", layout.strides[0][0], " and ",
                    layout.strides[k][0], " apart")) {
      return false;
    }
  }
  return true;
}

// Whether all rows start at a multiple of the vector and are whole vectors: row::Fit::kAligned.
// After rows_supported().
template <int kMost>
bool rows_aligned(const RowLayout<kMost>& layout, int width) {
  return (layout.columns & (width - 1)) == 0 && (layout.strides[0][0] & (width - 1)) == 0 &&
         misaligned(layout, 0, width) == 0;
}

// Vectors of a part where rows are cut in `parts`: enough for any row, wherever it starts.
template <int kMost>
int64_t part_vectors(const RowLayout<kMost>& layout, int width, int64_t parts) {
  return divide_up(layout.columns / width, parts);
}

}  // namespace ws
