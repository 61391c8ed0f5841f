// Idea: a thread a row: it walks its row of blocks, and its row of each.
// A block has one column for all of its entries, and they are multiplied with elements of x that
// follow each other.
// Traffic: each value once, though lanes read a row of a block apart; a column for each row of each
// block, from the caches.
// Limits: none.
#pragma once

#include "kernels/spmv/csr.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
// Of blocks the matrix is in compressed rows.
template <class T, class I>
struct BsrThreadKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Csr<T, I> a;
    int64_t block_rows;
    int64_t block_columns;
    int64_t value_row;
    int64_t value_column;
    Strided<const T> x;
    Result<T> result;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, block_rows, block_columns, value_row, value_column, x, result] = arguments;
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows * block_rows) return;
    const T* const values = a.values + row % block_rows * value_row;
    const auto [first, end] = a.entries_of(row / block_rows);
    Sum<T> sum = 0;
    for (int64_t j = first; j < end; ++j) {
      const int64_t column = thread::load(a.col + j * a.col_step);
      if (!a.columns(column, j)) continue;
      for (int64_t k = 0; k < block_columns; ++k) {
        const T value = thread::load(values + j * a.value_step + k * value_column);
        sum += widen(value) * widen(thread::load(x.at(column * block_columns + k)));
      }
    }
    result.store(row, sum);
  }
};
#endif

struct BsrThread {
  static void run(const BsrCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = BsrThreadKernel<T, I>;
      launch<Kernel>({.blocks = divide_up(call.rows * call.block_rows, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {Csr<T, I>(call, "spmv_bsr/bsr_thread"), call.block_rows, call.block_columns,
                      call.value_row, call.value_column, vector_of<T>(call), Result<T>(call)});
    });
  }
};

inline constexpr Rung kBsrThread = rung_of<BsrThread, SpmvBsr>({
    .name = "bsr_thread",
    .idea = "a thread a row walks its row of blocks, and its row of each",
});

}  // namespace ws::spmv
