// Idea: a thread takes the 4 or 8 columns that 16 bytes hold, and eight rows of them in flight.
// From thread_per_column: a fourth (an eighth) of the loads, 32 times the bytes under way a thread.
// Traffic: A once, 512 bytes a warp and load; x once a thread, the same for all of a warp.
// Limits: columns of A come by 16 bytes, M by 4 or 8; a thread for so many columns: 4096 of them in
//   f16 are 16 warps on one device.
#pragma once

#include "kernels/gemv/columns.hpp"
#include "warpsmith/launch.hpp"

namespace ws::gemv {

template <class T>
struct ColumnVectorsKernel {
  static constexpr int kThreads = 64;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kLoads = 8;
  struct Arguments {
    ColumnArguments<T> g;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const ColumnArguments<T>& g = arguments.g;
    const int64_t column = (block_index() * kThreads + thread_index()) * kWidth;
    if (column >= g.m) return;
    const ColumnSums<kWidth> sums = multiply_columns<kLoads>(g, column, 0, g.k, 1);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      thread::store(g.y + (column + e) * g.y_step, from_float<T>(sums[e]));
    }
  }
};

struct ColumnVectors {
  static bool supports(const Call& call, Why& why) { return columns_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ColumnVectorsKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kThreads * Kernel::kWidth),
                      .threads = Kernel::kThreads},
                     context.stream, {ColumnArguments<T>(call)});
    });
  }
};

inline constexpr Rung kColumnVectors = rung_of<ColumnVectors, Gemv>({
    .name = "column_vectors",
    .from = "thread_per_column",
    .idea = "a thread takes 16 bytes of columns, eight rows in flight",
});

}  // namespace ws::gemv
