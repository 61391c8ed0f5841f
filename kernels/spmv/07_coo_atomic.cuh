// Idea: a thread an entry: its product is added, by an atomic of the L2, to the sum of its row.
// Traffic: rows, columns and values once, in whole sectors; an atomic for each entry, which queue
// where many are of one row; two reads and two writes of a sum for each row, in f32 or f64.
// Limits: none, entries come in any order. Sums are added up in an order that is nobody's.
#pragma once

#include "kernels/spmv/coo.hpp"
#include "warpsmith/ptx/atomic_double.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct CooAtomicKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Coo<T, I> a;
    Strided<const T> x;
    Sum<T>* sums;  // of rows
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, sums] = arguments;
    const int64_t j = block_index() * kThreads + thread_index();
    if (j >= a.entries) return;
    const int64_t row = thread::load(a.row + j * a.row_step);
    const T value = thread::load(a.values + j * a.value_step);
    const I column = thread::load(a.col + j * a.col_step);
    if (!a.row_check(row, j)) return;
    ptx::red_global_add(sums + row, a.columns.product(value, column, j, x));
  }
};
#endif

struct CooAtomic {
  static Workspace workspace(const CooCall& call) {
    const size_t bytes = static_cast<size_t>(call.rows) * size_of_sum(call.dtype);
    return {.bytes = bytes, .zeroed = bytes};
  }
  static void run(const CooCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = CooAtomicKernel<T, I>;
      auto* sums = static_cast<Sum<T>*>(context.workspace);
      if (call.entries > 0) {
        launch<Kernel>(
            {.blocks = divide_up(call.entries, Kernel::kThreads), .threads = Kernel::kThreads},
            context.stream, {Coo<T, I>(call, "spmv_coo/coo_atomic"), vector_of<T>(call), sums});
      }
      store_rows<T>(call, sums, context.stream);
    });
  }
};

inline constexpr Rung kCooAtomic = rung_of<CooAtomic, SpmvCoo>({
    .name = "coo_atomic",
    .idea = "a thread an entry adds its product to its row's sum by an atomic",
    .deterministic = false,
});

}  // namespace ws::spmv
