// From a call to what rungs take of it: typed pointers, and what they ask of strides.
#pragma once

#include "kernels/gemv/operations.hpp"

namespace ws::gemv {

template <class T>
const T* a_of(const Call& call) {
  return static_cast<const T*>(call.a);
}
template <class T>
const T* x_of(const Call& call) {
  return static_cast<const T*>(call.x);
}
template <class T>
T* y_of(const Call& call) {
  return static_cast<T*>(call.y);
}

inline bool vectors_are_dense(const Call& call, Why& why) {
  return why.unless(call.x_step == 1 && call.y_step == 1, "needs x and y without gaps");
}

// As the bottom of the ladder has it: A row-major without padding, layout n.
inline bool is_dense(const Call& call, Why& why) {
  return why.unless(call.has_rows() && (call.m <= 1 || call.row == call.k),
                    "needs a dense row-major a of layout n") &&
         vectors_are_dense(call, why);
}

// Runs of A and, if rungs read it so, x can be read 16 bytes at a time.
inline bool is_aligned(const void* data, int64_t stride, DType dtype) {
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride * bytes % 16 == 0;
}

// Rows whose vectors an int counts, beside an x without gaps.
inline bool has_indexed_rows(const Call& call, Why& why) {
  constexpr int64_t kMostColumns = (int64_t{1} << 31) - (1 << 16);  // a tile more does not overflow
  return why.unless(call.has_rows() && call.x_step == 1,
                    "takes an a whose rows are contiguous, and an x without gaps") &&
         why.unless(call.k <= kMostColumns, "takes up to ", kMostColumns, " columns, not ", call.k);
}

// Rows that are read 16 bytes at a time, beside x. What is left behind a row's last vector is not.
inline bool rows_supported(const Call& call, Why& why) {
  return has_indexed_rows(call, why) &&
         why.unless(is_aligned(call.a, call.row, call.dtype) && is_aligned(call.x, 0, call.dtype),
                    "reads 16 bytes at a time: x and the rows of a have to start at multiples");
}

// Columns, which an int counts.
inline bool has_indexed_columns(const Call& call, Why& why) {
  return why.unless(call.has_columns(), "takes an a whose columns lie side by side") &&
         why.unless(call.m < int64_t{1} << 31, "takes fewer than 2^31 rows, not ", call.m);
}

// Columns, of which a thread reads as many as are in 16 bytes.
inline bool columns_supported(const Call& call, Why& why) {
  return has_indexed_columns(call, why) &&
         why.unless(is_aligned(call.a, call.column, call.dtype) &&
                        call.m * static_cast<int64_t>(size_of(call.dtype)) % 16 == 0,
                    "reads 16 bytes at a time: columns of a have to come by so many");
}

}  // namespace ws::gemv
