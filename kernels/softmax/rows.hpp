// The rows of a call as kernels see them.
#pragma once

#include <type_traits>

#include "kernels/softmax/mask.hpp"
#include "kernels/softmax/operations.hpp"
#include "kernels/softmax/row_operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/held.hpp"

namespace ws::softmax {

using row::Fit;
using row::kWidest;

// In accesses of 16 bytes.
inline int widest(const RowsCall& call) { return static_cast<int>(16 / size_of(call.dtype)); }

// Whether a kernel that gives a block (or less) to each row can take the rows in accesses of
// `width` elements.
template <class Call>
bool rows_supported(const Call& call, int width, Why& why) {
  if (!rows_supported(call.rows, width, why)) return false;
  if constexpr (std::is_base_of_v<MaskedCall, Call>) {
    return mask_supported(call.rows, call.mask, width, why);
  }
  return true;
}

#if WS_DEVICE_CODE

// What kernels do with a row of the call.
template <class Call>
typename Call::RowOperation row_operation_of(const Call& call) {
  typename Call::RowOperation op{};
  if constexpr (requires { op.scale; }) op.scale = call.scale;
  if constexpr (requires { op.fill; }) op.fill = call.fill;
  return op;
}

struct NoMask {};

// ---- Rows of any strides ----------------------------------------------------------------------

template <class T, class Op>
struct StridedRows {
  RowLayout<3> rows;  // inputs, then the output
  std::conditional_t<Op::kMasked, RowLayout<1>, NoMask> mask;
  Op op;
};

template <class T, class Call>
StridedRows<T, typename Call::RowOperation> strided_rows_of(const Call& call) {
  StridedRows<T, typename Call::RowOperation> rows{};
  rows.rows = call.rows;
  if constexpr (Call::RowOperation::kMasked) rows.mask = call.mask;
  rows.op = row_operation_of(call);
  return rows;
}

// One of them.
template <class T, class Op>
struct StridedRow {
  static constexpr int kInputs = Op::kInputs;

  const T* inputs[kInputs];
  T* output;
  int64_t strides[kInputs + 1];
  const uint8_t* mask;
  int64_t mask_stride;
  int64_t columns;
  Op op;

  __device__ __forceinline__ StridedRow(const StridedRows<T, Op>& all, int64_t row)
      : mask(nullptr), mask_stride(0), columns(all.rows.columns), op(all.op) {
    const RowLayout<3>& rows = all.rows;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      inputs[k] = static_cast<const T*>(rows.data[k]) + rows.offset(k, row);
    }
    output = static_cast<T*>(rows.data[kInputs]) + rows.offset(kInputs, row);
#pragma unroll
    for (int k = 0; k <= kInputs; ++k) strides[k] = rows.inner[k];
    if constexpr (Op::kMasked) {
      mask = static_cast<const uint8_t*>(all.mask.data[0]) + all.mask.offset(0, row);
      mask_stride = all.mask.inner[0];
    }
  }
  __device__ __forceinline__ typename Op::Element operator[](int64_t i) const {
    Values<kInputs> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      values[k] = to_float(thread::load(inputs[k] + i * strides[k]));
    }
    if constexpr (Op::kMasked) {
      return op.prepare(values, thread::load(mask + i * mask_stride) != 0);
    } else {
      return values;
    }
  }
  __device__ __forceinline__ void set(int64_t i, float value) const {
    thread::store(output + i * strides[kInputs], from_float<T>(value));
  }
};

// ---- Rows whose elements lie side by side -----------------------------------------------------

template <class T, class Op>
struct Rows {
  const T* inputs[Op::kInputs];
  T* output;
  int64_t input_strides[Op::kInputs];
  int64_t output_stride;
  int64_t count;
  int64_t columns;
  Op op;
  std::conditional_t<Op::kMasked, MaskRows, NoMask> mask;
};

// After rows_supported() said yes.
template <class T, class Call>
Rows<T, typename Call::RowOperation> rows_of(const Call& call) {
  using Op = typename Call::RowOperation;
  Rows<T, Op> rows{};
  for (int k = 0; k < Op::kInputs; ++k) {
    rows.inputs[k] = call.rows.template as<const T>(k);
    rows.input_strides[k] = call.rows.stride(k);
  }
  rows.output = call.rows.template as<T>(Op::kInputs);
  rows.output_stride = call.rows.stride(Op::kInputs);
  rows.count = call.rows.rows;
  rows.columns = call.rows.columns;
  rows.op = row_operation_of(call);
  if constexpr (Op::kMasked) rows.mask = MaskRows(call.mask);
  return rows;
}

// One of them, cut for accesses of kWidth elements.
template <class T, class Op, int kWidth, Fit kFit = Fit::kAnywhere>
struct Row : row::Cut<kWidth, kFit> {
  static constexpr int kInputs = Op::kInputs;
  using Element = typename Op::Element;
  using MaskVector = PackedMask<kWidth>;

  const T* inputs[kInputs];
  const uint8_t* mask;
  T* output;
  Op op;

  // `place` is the row's number, of masked operations its place in the order of MaskRows.
  __device__ __forceinline__ Row(const Rows<T, Op>& rows, int64_t place)
      : Row(rows, number(rows, place), NoMask{}) {}

  // Keeps part `index` of those of `share` vectors, see part_vectors(); the edges go with part 0.
  __device__ __forceinline__ void keep_part(int index, int64_t share) {
    const int64_t first = row::Cut<kWidth, kFit>::keep_part(index, share);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] += first;
    if constexpr (Op::kMasked) mask += first;
    output += first;
  }

  // The elements of a vector, and the one of an edge.
  __device__ __forceinline__ Tile<Element, kWidth> elements(int64_t vector) const {
    Tile<Values<kInputs>, kWidth> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const Vec<T, kWidth> loaded = thread::load<kWidth>(inputs[k] + this->at(vector));
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i][k] = to_float(loaded[i]);
    }
    if constexpr (Op::kMasked) {
      const MaskVector keep = MaskVector::load(mask + this->at(vector));
      Tile<Element, kWidth> elements;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) elements[i] = op.prepare(values[i], keep[i]);
      return elements;
    } else {
      return values;
    }
  }
  __device__ __forceinline__ Element edge_element(int i) const {
    Values<kInputs> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      values[k] = to_float(thread::load(inputs[k] + this->edge(i)));
    }
    if constexpr (Op::kMasked) {
      return op.prepare(values, thread::load(mask + this->edge(i)) != 0);
    } else {
      return values;
    }
  }
  __device__ __forceinline__ void store(int64_t vector, const Vec<float, kWidth>& value) const {
    thread::store(output + this->at(vector), thread::convert<T>(value));
  }
  __device__ __forceinline__ void store_edge(int i, float value) const {
    thread::store(output + this->edge(i), from_float<T>(value));
  }

 private:
  __device__ __forceinline__ static int64_t number(const Rows<T, Op>& rows, int64_t place) {
    if constexpr (Op::kMasked) return rows.mask.nth(place);
    return place;
  }
  __device__ __forceinline__ Row(const Rows<T, Op>& rows, int64_t row, NoMask /*numbered*/)
      : row::Cut<kWidth, kFit>(rows.output + row * rows.output_stride, rows.columns),
        mask(nullptr),
        output(rows.output + row * rows.output_stride),
        op(rows.op) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) inputs[k] = rows.inputs[k] + row * rows.input_strides[k];
    if constexpr (Op::kMasked) mask = rows.mask[row];
  }
};

#endif

}  // namespace ws::softmax
