// Idea: a thread a row walks its slots: rows are of one length, nobody asks where one begins.
// Traffic: each value and column once, padding too. Where rows are stored one after the other lanes
// read a row apart, and the caches must hold their sectors until the other slots are due; where
// slots are, lanes read neighbours.
// Limits: none.
#pragma once

#include "kernels/spmv/ell.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct EllThreadKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Ell<T, I> a;
    Strided<const T> x;
    Result<T> result;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, result] = arguments;
    const int64_t row = block_index() * kThreads + thread_index();
    if (row >= a.rows) return;
    Sum<T> sum = 0;
    for (int64_t k = 0; k < a.slots; ++k) {
      const I column = thread::load(a.col + row * a.col_row + k * a.col_slot);
      if (column == kPadding) continue;
      const T value = thread::load(a.values + row * a.value_row + k * a.value_slot);
      sum += a.columns.product(value, column, row * a.slots + k, x);
    }
    result.store(row, sum);
  }
};
#endif

struct EllThread {
  static void run(const EllCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = EllThreadKernel<T, I>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {Ell<T, I>(call, "spmv_ell/ell_thread"), vector_of<T>(call), Result<T>(call)});
    });
  }
};

inline constexpr Rung kEllThread = rung_of<EllThread, SpmvEll>({
    .name = "ell_thread",
    .idea = "a thread a row walks its slots",
});

}  // namespace ws::spmv
