// Idea: keep maximum and sum together; when the maximum grows, scale the sum down.
// From safe: the first two passes are one, so the row is read twice instead of three times.
// Traffic: two reads, one write, still a thread a row.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/launch.hpp"

namespace ws::softmax {

template <class T, class Op>
struct OnlineKernel {
  static constexpr int kThreads = 128;
  using Arguments = StridedRows<T, Op>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& rows) const {
    const int64_t r = block_index() * kThreads + thread_index();
    if (r >= rows.layout.rows) return;
    const StridedRow<T, Op> row(rows, r);
    auto total = Op::none();
    for (int64_t i = 0; i < row.columns; ++i) total = Op::add(total, row[i]);
    const typename Op::Finish finish(total);
    for (int64_t i = 0; i < row.columns; ++i) row.set(i, finish(row[i]));
  }
};

struct Online {
  static void run(const Problem& problem, const Context& context) {
    dispatch<kEvery>(problem, [&]<class T, class Op>() {
      using Kernel = OnlineKernel<T, Op>;
      const auto rows = strided_rows_of<T, Op>(problem);
      launch<Kernel>(
          {.blocks = divide_up(rows.layout.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, rows);
    });
  }
};

}  // namespace ws::softmax
