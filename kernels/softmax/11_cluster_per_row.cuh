// Idea: a cluster of up to 16 blocks owns a row; each keeps its part in registers, and the blocks
// merge their totals through distributed shared memory.
// From row_in_registers: rows of up to 1 MiB are still read once.
// Traffic: one read, one write, a few hundred bytes between SMs for a row.
// Limits: 16 blocks of 64 KiB, of gradients, which hold two rows, of 32 KiB. A cluster of more than
// 8 is not portable beyond Hopper.
#pragma once

#include <bit>

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/launch.hpp"

namespace ws::softmax {

template <class T, class Op>
struct ClusterPerRowKernel {
  static constexpr int kThreads = 512;
  static constexpr int kVectors = 8 / Op::kInputs;
  static constexpr Arch kArch = Arch::kSm90;
  using Part = RowTile<T, Op, kWidest<T>, kThreads, kVectors>;
  using Total = typename Op::Total;
  struct Arguments {
    Rows<T, Op> rows;
    int64_t part;  // of a row that a block takes, in vectors
  };
  struct SharedStorage {
    typename cluster::AllReduce<Total, kThreads>::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    typename Part::RowOf row(a.rows, block_index() / cluster_size());
    row.keep_part(cluster_rank(), a.part);
    const Part tile(row, thread_index());  // in flight while the cluster meets
    cluster::AllReduce<Total, kThreads> all_reduce(shared.total);
    auto elements = tile.elements();
    const Total mine = Op::template begin<kWarpSize>(elements);
    const Total total = all_reduce.of_warps(mine, Op::none(), Op::merge);
    tile.store(row, elements, Op::end(mine, total));
    all_reduce.finish();
  }
};

struct ClusterPerRow {
  // Of a row of each input that a block holds.
  static int64_t block_bytes(const Problem& problem) {
    return is_backward(kind_of(problem)) ? 32 * 1024 : 64 * 1024;
  }
  static Reason supports(const Problem& problem) {
    const Layout layout = layout_of(problem);
    const int64_t most = cluster::kMaxBlocks * block_bytes(problem);
    if (const int64_t bytes = row_bytes(problem, layout); bytes > most) {
      return concatenate("a cluster's registers hold rows of up to ", most, " bytes, not ", bytes);
    }
    if (layout.rows > kMostBlocks / cluster::kMaxBlocks) {
      return concatenate("takes up to ", kMostBlocks / cluster::kMaxBlocks, " rows, not ",
                         layout.rows);
    }
    return rows_supported(problem, layout, widest(problem.tensor(0).dtype));
  }
  static void run(const Problem& problem, const Context& context) {
    const int64_t bytes = row_bytes(problem, layout_of(problem));
    const auto blocks = static_cast<int>(
        std::bit_ceil(static_cast<uint64_t>(divide_up(bytes, block_bytes(problem)))));
    dispatch<kEvery>(problem, [&]<class T, class Op>() {
      using Kernel = ClusterPerRowKernel<T, Op>;
      const auto rows = rows_of<T, Op>(problem);
      launch<Kernel>(
          {.blocks = rows.count * blocks, .threads = Kernel::kThreads, .cluster = blocks},
          context.stream, {rows, part_vectors<kWidest<T>>(rows, blocks)});
    });
  }
};

}  // namespace ws::softmax
