// Idea: as many lanes a row as its mean length asks for, 1 to 32: a warp has several short rows.
// From vector: no lane without an entry, where rows are of one length; two to four entries a lane,
//   whose loads of x are under way at once.
// Traffic: that of vector.
// Limits: none. All rows get the same lanes: where lengths differ the long ones are waited for.
#pragma once

#include "kernels/spmv/csr.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::spmv {

#if WS_DEVICE_CODE
template <class T, class I>
struct LanesPerRowKernel {
  static constexpr int kThreads = 256;
  static constexpr int kBatch = 4;
  struct Arguments {
    Csr<T, I> a;
    Strided<const T> x;
    Result<T> result;
    int lanes;  // a power of two
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, x, result, lanes] = arguments;
    const int lane = thread_index() & (lanes - 1);
    const int64_t row = (block_index() * kThreads + thread_index()) / lanes;
    const bool has_row = row < a.rows;  // all lanes stay for the shuffles
    const auto [first, end] = has_row ? a.entries_of(row) : Entries{0, 0};
    Sum<T> sum = 0;
    for (int64_t j = first + lane; j < end; j += kBatch * lanes) {
      Vec<T, kBatch> values;
      Vec<I, kBatch> columns;
      bool known[kBatch];
#pragma unroll
      for (int e = 0; e < kBatch; ++e) {
        known[e] = j + e * lanes < end;
        if (!known[e]) continue;
        values[e] = thread::load(a.values + (j + e * lanes) * a.value_step);
        columns[e] = thread::load(a.col + (j + e * lanes) * a.col_step);
      }
      const auto position = [&](int e) { return j + e * lanes; };
      const auto products = a.columns.products(values, columns, known, x, position);
#pragma unroll
      for (int e = 0; e < kBatch; ++e) sum += products[e];
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      sum += warp::shuffle_xor(sum, distance);
    }
    if (has_row && lane == 0) result.store(row, sum);
  }
};
#endif

struct LanesPerRow {
  // Two to four entries a lane.
  static int lanes(const VectorCall& call) {
    const double mean = call.mean_length();
    int lanes = 1;
    while (lanes < kWarpSize && 2 * lanes < mean) lanes *= 2;
    return lanes;
  }
  static bool supports(const VectorCall& call, Why& why) {
    return why.unless(call.rows < int64_t{1} << 33, "takes fewer than 2^33 rows, not ", call.rows);
  }
  static void run(const VectorCall& call, const Context& context) {
    with_types(call, [&]<class T, class I>() {
      using Kernel = LanesPerRowKernel<T, I>;
      launch<Kernel>({.blocks = divide_up(call.rows * lanes(call), Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {Csr<T, I>(call, "spmv_csr/lanes_per_row"), vector_of<T>(call),
                      Result<T>(call), lanes(call)});
    });
  }
};

inline constexpr Rung kLanesPerRow = rung_of<LanesPerRow, SpmvCsr>({
    .name = "lanes_per_row",
    .from = "vector",
    .idea = "1 to 32 lanes a row, as the mean length asks for",
});

}  // namespace ws::spmv
