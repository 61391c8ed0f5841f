// Idea: a block owns a row, in registers; its warps merge their totals through shared memory.
// From warp_registers: eight warps hold eight times as much. kWidth shows what an access of 1, 2, 4
// or 8 elements is worth: fewer instructions, and more bytes in flight for each.
// Traffic: one read, one write. Limits: 256 threads of 32 elements hold rows of up to 8192.
#pragma once

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/launch.hpp"

namespace ws::softmax {

template <class T, class Op, int kWidth>
struct BlockPerRowKernel {
  static constexpr int kThreads = 256;
  static constexpr int kElementsPerThread = 32;
  using RowInRegisters = RowTile<T, Op, kWidth, kThreads, kElementsPerThread / kWidth>;
  using Total = typename Op::Total;
  using Arguments = Rows<T, Op>;
  struct SharedStorage {
    typename block::AllReduce<Total, kThreads>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& rows) const {
    const typename RowInRegisters::RowOf row(rows, block_index());
    const RowInRegisters tile(row, thread_index());
    auto elements = tile.elements();
    const Total mine = Op::template begin<kWarpSize>(elements);
    block::AllReduce<Total, kThreads> all_reduce(shared.total);
    const Total total = all_reduce.of_warps(mine, Op::merge);
    tile.store(row, elements, Op::end(mine, total));
  }
};

template <int kWidth>
struct BlockPerRow {
  static constexpr int64_t kColumns = 8192;

  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    if (Reason reason = one_of(kForwardAndMasked, problem); !reason.empty()) return reason;
    if (layout.columns > kColumns) {
      return concatenate("a block's registers hold rows of up to ", kColumns, " elements, not ",
                         layout.columns);
    }
    return rows_supported(problem, layout, kWidth);
  }
  static void run(const Problem& problem, const Context& context) {
    dispatch<kForwardAndMasked>(problem, [&]<class T, class Op>() {
      if constexpr (kWidth <= kWidest<T>) {
        using Kernel = BlockPerRowKernel<T, Op, kWidth>;
        const auto rows = rows_of<T, Op>(problem);
        launch<Kernel>({.blocks = rows.count, .threads = Kernel::kThreads}, context.stream, rows);
      }
    });
  }
};

}  // namespace ws::softmax
