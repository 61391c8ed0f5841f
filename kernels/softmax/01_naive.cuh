// Idea: a thread owns a row and follows the formula: sum exp(x), then divide.
// Traffic: two reads, one write; neighbouring threads read addresses a row apart, so each 32-byte
// sector that is fetched gives one element.
// Limits: exp(x) overflows from x = 88.7 on. Takes problems whose caller promises |x| <= 64.
#pragma once

#include "kernels/softmax/rows.hpp"
#include "warpsmith/launch.hpp"

namespace ws::softmax {

template <class T, class Op>
struct NaiveKernel {
  static constexpr int kThreads = 128;
  using Arguments = StridedRows<T, Op>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& rows) const {
    const int64_t r = block_index() * kThreads + thread_index();
    if (r >= rows.layout.rows) return;
    const StridedRow<T, Op> row(rows, r);
    float sum = 0;
    for (int64_t i = 0; i < row.columns; ++i) sum += exp_approximate(row[i][0]);
    const typename Op::Finish finish(MaxSum{.max = 0, .sum = sum});
    for (int64_t i = 0; i < row.columns; ++i) row.set(i, finish(row[i]));
  }
};

struct Naive {
  static Reason supports(const Problem& problem) {
    if (Reason reason = one_of(kForward, problem); !reason.empty()) return reason;
    if (problem.attribute(0) != 0) return {};
    return "does not subtract the maximum, so exp(x) may overflow: needs bounded=true";
  }
  static void run(const Problem& problem, const Context& context) {
    dispatch<kForward>(problem, [&]<class T, class Op>() {
      using Kernel = NaiveKernel<T, Op>;
      const auto rows = strided_rows_of<T, Op>(problem);
      launch<Kernel>(
          {.blocks = divide_up(rows.layout.rows, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, rows);
    });
  }
};

}  // namespace ws::softmax
