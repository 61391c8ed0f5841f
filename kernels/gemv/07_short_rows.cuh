// Idea: as many lanes a row as it has vectors; a lane keeps its vector of x in a register and takes
//   one row after the other, four loads in flight.
// From several_rows: rows of up to 512 bytes.
// From half_warp_per_row: 16 bytes a load.
// Traffic: A once, x once a thread. A block reads rows that follow each other: one stretch.
// Limits: whole vectors, at most 32 of them a row.
#pragma once

#include "kernels/gemv/rows.hpp"
#include "warpsmith/warp/shuffle.hpp"

namespace ws::gemv {

// Threads of a block, rows of a thread.
template <int kThreads_, int kRows_>
struct ShortRowsPolicy {
  static constexpr int kThreads = kThreads_;
  static constexpr int kRows = kRows_;
};

template <class T, class Policy>
struct ShortRowsKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kRows = Policy::kRows;
  static constexpr int kWidth = row::kWidest<T>;
  using Vector = row::Packed<T, kWidth>;
  struct Arguments : RowArguments<T> {
    int lanes;  // of a row: a power of two
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int lane = thread_index() & (g.lanes - 1);
    const int side_by_side = kThreads / g.lanes;
    const int64_t first = block_index() * (side_by_side * kRows) + thread_index() / g.lanes;
    const bool mine = lane * kWidth < g.k && first < g.m;
    Sums<kRows> sums{};
    if (mine) {
      const Vector x = Vector::load(g.x + lane * kWidth);
      Vector a[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t row = first + r * side_by_side;
        a[r] = Vector::load(g.a + (row < g.m ? row : first) * g.pitch + lane * kWidth);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] = dot(a[r], x);
    }
    for (int distance = g.lanes / 2; distance > 0; distance /= 2) {
      sums = AddSums{}(sums, warp::shuffle_xor(sums, distance));
    }
    // All lanes have the sums: each writes some.
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = first + r * side_by_side;
      if ((r & (g.lanes - 1)) == lane && row < g.m) {
        thread::store(g.y + row * g.y_step, from_float<T>(sums[r]));
      }
    }
  }
};

template <class Policy>
struct ShortRows {
  static bool supports(const Call& call, Why& why) {
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    return rows_supported(call, why) &&
           why.unless(call.k > 0 && call.k % width == 0 && call.k <= kWarpSize * width,
                      "takes rows of 1 to 32 whole vectors of ", width,
                      " elements, not K = ", call.k);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ShortRowsKernel<T, Policy>;
      int lanes = 1;
      while (lanes * Kernel::kWidth < call.k) lanes *= 2;
      const int64_t rows = int64_t{Kernel::kThreads / lanes} * Kernel::kRows;
      launch<Kernel>({.blocks = divide_up(call.m, rows), .threads = Kernel::kThreads},
                     context.stream, {RowArguments<T>(call), lanes});
    });
  }
};

// 256 threads ask for 16 KiB. H200 2026-11-22, 2^20 rows of 16, 64, 128 elements, f32: 97, 99, 102
// % of copy, f16: 96, 93, 100 % (eight rows a lane: 97, 98, 101 and 92, 94, 100).
using ShortRowsChosen = ShortRowsPolicy<256, 4>;

inline constexpr Rung kShortRows = rung_of<ShortRows<ShortRowsChosen>, Gemv>({
    .name = "short_rows",
    .from = "several_rows",
    .idea = "as many lanes a row as it has vectors, x in registers, four rows in flight",
});

}  // namespace ws::gemv
