// A matrix of as many slots in each row, as kernels see it. Padding counts for nothing, whatever
// its value; a column that is neither -1 nor one of the matrix' is reported, and counts as 0.
#pragma once

#include "kernels/spmv/elements.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
inline constexpr int kPadding = -1;

template <class T, class I>
struct Ell {
  const T* values;
  const I* col;
  int64_t value_row;
  int64_t value_slot;
  int64_t col_row;
  int64_t col_slot;
  int64_t rows;
  int64_t slots;
  Columns<T, I> columns;

  // `rung` is of static storage.
  Ell(const EllCall& call, const char* rung)
      : values(static_cast<const T*>(call.values)),
        col(static_cast<const I*>(call.col)),
        value_row(call.value_row),
        value_slot(call.value_slot),
        col_row(call.col_row),
        col_slot(call.col_slot),
        rows(call.rows),
        slots(call.slots),
        columns(call.columns, rung) {}

  // Products of the slots from (row, slot) on, `step` apart in row-major order, that are `known`:
  // next to each other in memory by value_step and col_step, and loaded at once where they may be.
  template <int kCount>
  __device__ __forceinline__ Vec<Sum<T>, kCount> products(int64_t row, int64_t slot, int64_t step,
                                                          int64_t value_step, int64_t col_step,
                                                          bool at_once, bool (&known)[kCount],
                                                          const Strided<const T>& x) const {
    const auto at =
        load_known<kCount>(col + row * col_row + slot * col_slot, col_step, at_once, known);
    const auto of = load_known<kCount>(values + row * value_row + slot * value_slot, value_step,
                                       at_once, known);
#pragma unroll
    for (int e = 0; e < kCount; ++e) known[e] = known[e] && at[e] != kPadding;
    return columns.products(of, at, known, x, [&](int e) { return row * slots + slot + e * step; });
  }
};

// Whether vectors of kCount begin wherever a multiple of kCount rows or slots does, whose steps are
// 1 and these.
template <class T, class I, int kCount>
bool has_vectors(const EllCall& call, int64_t value_step, int64_t col_step) {
  return value_step % kCount == 0 && col_step % kCount == 0 &&
         begins_at_vector<T, kCount>(call.values) && begins_at_vector<I, kCount>(call.col);
}
#endif

}  // namespace ws::spmv
