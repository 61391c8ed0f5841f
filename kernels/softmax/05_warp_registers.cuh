// Idea: a warp keeps its row in registers between the total and the output.
// From warp_per_row: memory is read once, 16 bytes at a time, all loads issued before the first is
// needed: a thread has up to 128 bytes in flight instead of 4.
// Traffic: one read, one write. Limits: what 32 threads can hold, 1024 elements and a little.
#pragma once

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::softmax {

template <class T, class Op>
struct WarpRegistersKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kColumns = 1024;
  using RowInRegisters = RowTile<T, Op, kWidest<T>, kWarpSize, kColumns / (kWarpSize * kWidest<T>)>;
  static_assert(RowInRegisters::kCapacity == kColumns);
  using Arguments = Rows<T, Op>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& rows) const {
    const int64_t r = block_index() * kWarps + warp_index();
    if (r >= rows.count) return;
    const typename RowInRegisters::RowOf row(rows, r);
    const RowInRegisters tile(row, lane_index());
    auto elements = tile.elements();
    const auto total = Op::template begin<kWarpSize>(elements);
    tile.store(row, elements, Op::end(total, total));
  }
};

struct WarpRegisters {
  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    if (layout.columns > 1024) {
      return concatenate("a warp's registers hold rows of up to 1024 elements, not ",
                         layout.columns);
    }
    return rows_supported(problem, layout, widest(problem.tensor(0).dtype));
  }
  static void run(const Problem& problem, const Context& context) {
    dispatch<kEvery>(problem, [&]<class T, class Op>() {
      using Kernel = WarpRegistersKernel<T, Op>;
      const auto rows = rows_of<T, Op>(problem);
      launch<Kernel>({.blocks = divide_up(rows.count, Kernel::kWarps), .threads = Kernel::kThreads},
                     context.stream, rows);
    });
  }
};

}  // namespace ws::softmax
