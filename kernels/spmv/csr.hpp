// A matrix in compressed rows, as kernels see it.
//
// What is wrong in the matrix is reported and skipped: a row whose end lies below its beginning or
// beyond the entries is empty, an entry whose column is none counts as 0. Whatever `crow` and `col`
// hold, nothing is read or written out of bounds.
#pragma once

#include "kernels/spmv/elements.hpp"

namespace ws::spmv {

// What vectors of entries are read from.
inline bool is_dense(const Matrix& matrix, Why& why) {
  return why.unless(matrix.value_step == 1 && matrix.crow_step == 1 && matrix.col_step == 1,
                    "takes values, crow and col without gaps, not with strides of ",
                    matrix.value_step, ", ", matrix.crow_step, " and ", matrix.col_step);
}

// Whether rows of a matrix are whole aligned vectors of 16 bytes, their elements side by side.
inline bool has_vector_rows(DType dtype, int64_t width, const void* data, int64_t row,
                            int64_t column) {
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  return column == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0 && row * bytes % 16 == 0 &&
         width * bytes % 16 == 0;
}
inline bool has_vector_rows(const MatrixCall& call) {
  return has_vector_rows(call.dtype, call.width, call.b, call.b_row, call.b_column) &&
         has_vector_rows(call.dtype, call.width, call.c, call.c_row, call.c_column);
}

#if WS_DEVICE_CODE
struct Entries {
  int64_t first;
  int64_t end;
};

template <class T, class I>
struct Csr {
  const T* values;
  const I* crow;
  const I* col;
  int64_t value_step;
  int64_t crow_step;
  int64_t col_step;
  int64_t rows;
  int64_t entries;
  IndexCheck ends;
  Columns<T, I> columns;

  // `rung` is of static storage.
  Csr(const Matrix& matrix, const char* rung)
      : values(static_cast<const T*>(matrix.values)),
        crow(static_cast<const I*>(matrix.crow)),
        col(static_cast<const I*>(matrix.col)),
        value_step(matrix.value_step),
        crow_step(matrix.crow_step),
        col_step(matrix.col_step),
        rows(matrix.rows),
        entries(matrix.entries),
        ends(rung, "crow", matrix.entries + 1),
        columns(matrix.columns, rung) {}

  // What crow says of a row, and of it the entries. A beginning that is wrong is the end of the row
  // before, which reports it.
  __device__ __forceinline__ Entries said_of(int64_t row) const {
    return {thread::load(crow + row * crow_step), thread::load(crow + (row + 1) * crow_step)};
  }
  __device__ __forceinline__ Entries checked(int64_t row, const Entries& said) const {
    const auto [first, end] = said;
    const bool begins =
        row == 0 ? ends.below(1)(first, 0) : static_cast<uint64_t>(first) <= uint64_t(entries);
    return begins && ends(end, row + 1, first) ? said : Entries{0, 0};
  }
  __device__ __forceinline__ Entries entries_of(int64_t row) const {
    return checked(row, said_of(row));
  }

  // The row that entry j lies in, `rows` where it lies in none: the first that ends behind it, from
  // `least` on. Whatever crow holds it is one of these.
  __device__ __forceinline__ int64_t row_of(int64_t j, int64_t least = 0) const {
    int64_t low = least;
    int64_t high = rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (thread::load(crow + (middle + 1) * crow_step) <= j) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Entry j times its element of x.
  __device__ __forceinline__ Sum<T> product(int64_t j, const Strided<const T>& x) const {
    const T value = thread::load(values + j * value_step);
    const I column = thread::load(col + j * col_step);
    return columns.product(value, column, j, x);
  }
};
#endif

}  // namespace ws::spmv
