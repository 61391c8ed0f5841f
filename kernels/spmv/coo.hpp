// A matrix in coordinates, as kernels see it. An entry whose row or column is none is reported and
// counts for nothing.
#pragma once

#include "kernels/spmv/elements.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct Coo {
  const T* values;
  const I* row;
  const I* col;
  int64_t value_step;
  int64_t row_step;
  int64_t col_step;
  int64_t rows;
  int64_t entries;
  IndexCheck row_check;
  Columns<T, I> columns;

  // `rung` is of static storage.
  Coo(const CooCall& call, const char* rung)
      : values(static_cast<const T*>(call.values)),
        row(static_cast<const I*>(call.row)),
        col(static_cast<const I*>(call.col)),
        value_step(call.value_step),
        row_step(call.row_step),
        col_step(call.col_step),
        rows(call.rows),
        entries(call.entries),
        row_check(rung, "row", call.rows),
        columns(call.columns, rung) {}
};

// y from the sums of rows, which are zero again then; without any they are 0.
template <class T>
struct StoreRowsKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Sum<T>* sums;  // null: none
    Result<T> result;
    int64_t rows;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    Sum<T> sum = 0;
    if (a.sums != nullptr) {
      sum = thread::load(a.sums + row);
      thread::store(a.sums + row, Sum<T>{0});
    }
    a.result.store(row, sum);
  }
};

template <class T>
void store_rows(const CooCall& call, Sum<T>* sums, Stream stream) {
  using Kernel = StoreRowsKernel<T>;
  launch<Kernel>({.blocks = divide_up(call.rows, Kernel::kThreads), .threads = Kernel::kThreads},
                 stream, {sums, Result<T>(call), call.rows});
}
#endif

}  // namespace ws::spmv
