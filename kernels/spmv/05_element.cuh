// Idea: a thread computes one element of C: it walks its row's entries and a column of B.
// Traffic: of each row N reads of its values and columns, from the caches; lanes take neighbouring
// columns of B, so that its rows come in whole sectors where they lie so.
// Limits: none.
#pragma once

#include "kernels/spmv/csr.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct ElementKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Csr<T, I> a;
    int64_t width;
    const T* b;
    int64_t b_row, b_column;
    T* c;
    int64_t c_row, c_column;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, width, b, b_row, b_column, c, c_row, c_column] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    const int64_t row = index / width;
    const int64_t n = index % width;
    if (row >= a.rows) return;
    const auto [first, end] = a.entries_of(row);
    Sum<T> sum = 0;
    // Of B one column: a vector.
    for (int64_t j = first; j < end; ++j) sum += a.product(j, {b + n * b_column, b_row});
    thread::store(c + row * c_row + n * c_column, narrow<T>(sum));
  }
};
#endif

struct Element {
  static bool supports(const MatrixCall& call, Why& why) {
    constexpr int64_t kMost = int64_t{1} << 38;
    return why.unless(call.width == 0 || call.rows <= kMost / call.width, "takes up to ", kMost,
                      " elements, not ", call.rows, " x ", call.width);
  }
  static void run(const MatrixCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = ElementKernel<T, I>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows * call.width, Kernel::kThreads),
           .threads = Kernel::kThreads},
          context.stream,
          {Csr<T, I>(call, "spmm_csr/element"), call.width, static_cast<const T*>(call.b),
           call.b_row, call.b_column, static_cast<T*>(call.c), call.c_row, call.c_column});
    });
  }
};

inline constexpr Rung kElement = rung_of<Element, SpmmCsr>({
    .name = "element",
    .idea = "a thread an element of C walks its row's entries",
});

}  // namespace ws::spmv
