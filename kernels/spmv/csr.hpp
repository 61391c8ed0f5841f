// A matrix in compressed rows, the vector that it is multiplied with and the one that is written,
// as kernels see them.
//
// What is wrong in the matrix is reported and skipped: a row whose end lies below its beginning or
// beyond the entries is empty, an entry whose column is none counts as 0. Whatever `crow` and `col`
// hold, nothing is read or written out of bounds.
#pragma once

#include "kernels/spmv/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::spmv {

// What sums of T are added up in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// f.operator()<T, I>() with the types of values and of indices.
template <class F>
void with_types(const Matrix& matrix, F&& f) {
  with_type<kValues>(matrix.dtype, [&]<class T>() {
    with_type<kIndices>(matrix.index, [&]<class I>() { f.template operator()<T, I>(); });
  });
}

// What vectors of entries are read from.
inline bool is_dense(const Matrix& matrix, Why& why) {
  return why.unless(matrix.value_step == 1 && matrix.crow_step == 1 && matrix.col_step == 1,
                    "takes values, crow and col without gaps, not with strides of ",
                    matrix.value_step, ", ", matrix.crow_step, " and ", matrix.col_step);
}

#if WS_DEVICE_CODE
template <class T>
__device__ __forceinline__ Sum<T> widen(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return to_float(value);
  }
}
template <class T>
__device__ __forceinline__ T narrow(Sum<T> value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return from_float<T>(value);
  }
}

template <class T>
struct Strided {
  T* data;
  int64_t step;

  __device__ __forceinline__ T* at(int64_t i) const { return data + i * step; }
};

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
  int64_t width;  // columns of the matrix
  IndexCheck ends;
  IndexCheck columns;

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
        width(matrix.columns),
        ends(rung, "crow", matrix.entries + 1),
        columns(rung, "col", matrix.columns) {}

  // The entries of a row. A beginning that is wrong is the end of the row before, which reports it.
  __device__ __forceinline__ Entries entries_of(int64_t row) const {
    const int64_t first = thread::load(crow + row * crow_step);
    const int64_t end = thread::load(crow + (row + 1) * crow_step);
    const bool begins =
        row == 0 ? ends.below(1)(first, 0) : static_cast<uint64_t>(first) <= uint64_t(entries);
    return begins && ends(end, row + 1, first) ? Entries{first, end} : Entries{0, 0};
  }

  // Entry j times its element of x.
  __device__ __forceinline__ Sum<T> product(int64_t j, const Strided<const T>& x) const {
    const T value = thread::load(values + j * value_step);
    const I column = thread::load(col + j * col_step);
    if (!columns(column, j)) return 0;
    return widen(value) * widen(thread::load(x.at(column)));
  }

  // The same of entries j, j + step, ... that are `known`, 0 of others. Columns are checked without
  // a branch, so that all loads of x are under way before the first product; what is wrong is
  // reported after them.
  template <int kCount>
  __device__ __forceinline__ Vec<Sum<T>, kCount> products(int64_t j, int64_t step,
                                                          const Vec<T, kCount>& of,
                                                          const Vec<I, kCount>& at,
                                                          const bool (&known)[kCount],
                                                          const Strided<const T>& x) const {
    Vec<T, kCount> found;
    bool good[kCount];
    int wrong = -1;
    I wrong_column = 0;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      const bool exists = static_cast<uint64_t>(int64_t{at[e]}) < static_cast<uint64_t>(width);
      good[e] = known[e] && exists;
      if (known[e] && !exists) {
        wrong = e;
        wrong_column = at[e];
      }
      if (good[e]) found[e] = thread::load(x.at(at[e]));
    }
    Vec<Sum<T>, kCount> result;
#pragma unroll
    for (int e = 0; e < kCount; ++e) result[e] = good[e] ? widen(of[e]) * widen(found[e]) : 0;
    if (wrong >= 0) columns(wrong_column, j + wrong * step);
    return result;
  }
};

// Where sums of rows go.
template <class T>
struct Result {
  Strided<T> y;
  Strided<const T> added;
  Sum<T> alpha;
  Sum<T> beta;

  explicit Result(const VectorCall& call)
      : y{static_cast<T*>(call.y), call.y_step},
        added{static_cast<const T*>(call.added), call.added_step},
        alpha(static_cast<Sum<T>>(call.alpha)),
        beta(static_cast<Sum<T>>(call.beta)) {}

  __device__ __forceinline__ void store(int64_t row, Sum<T> sum) const {
    Sum<T> result = alpha * sum;
    if (added.data != nullptr) result += beta * widen(thread::load(added.at(row)));
    thread::store(y.at(row), narrow<T>(result));
  }
};
#endif

template <class T>
Strided<const T> vector_of(const VectorCall& call) {
  return {static_cast<const T*>(call.x), call.x_step};
}

}  // namespace ws::spmv
