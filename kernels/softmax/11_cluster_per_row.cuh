// Idea: a cluster of up to 16 blocks owns a row; each keeps its part in registers, and the blocks
// merge their totals through distributed shared memory.
// From row_in_registers: rows of up to 1 MiB are still read once.
// Traffic: one read, one write, a few hundred bytes between SMs for a row.
// Limits: 16 blocks of 64 KiB, of gradients, which hold two rows, of 32 KiB. A cluster of more than
// 8 is not portable beyond Hopper.
#pragma once

#include "kernels/softmax/row_tile.hpp"
#include "warpsmith/cluster/reduce.hpp"

#if WS_DEVICE_CODE
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
    const Total total = all_reduce.of_warps(mine, Op::none(), typename Op::Merge{});
    tile.store(row, elements, Op::end(mine, total));
    all_reduce.finish();
  }
};

struct ClusterPerRow {
  // Of a row of each input that a block holds.
  static int64_t block_bytes(const RowsCall& call) { return 64 * 1024 / call.inputs(); }

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t most = cluster::kMaxBlocks * block_bytes(call);
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= most, "a cluster's registers hold rows of up to ", most,
                      " bytes, not ", bytes) &&
           why.unless(call.rows.rows <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " rows, not ", call.rows.rows) &&
           rows_supported(call, widest(call), why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    const auto blocks = static_cast<int>(divide_up(call.rows.row_bytes(), block_bytes(call)));
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ClusterPerRowKernel<T, typename Call::RowOperation>;
      launch<Kernel>(
          {.blocks = call.rows.rows * blocks, .threads = Kernel::kThreads, .cluster = blocks},
          context.stream, {rows_of<T>(call), part_vectors(call.rows, kWidest<T>, blocks)});
    });
  }
};

inline constexpr Rung kClusterPerRow =
    rung_of<ClusterPerRow, Softmax, LogSoftmax, ScaleMaskSoftmax, SoftmaxBackward,
            LogSoftmaxBackward, ScaleMaskSoftmaxBackward>(
        {.name = "cluster_per_row",
         .from = "row_in_registers",
         .idea = "a row over up to 16 blocks, totals merged through distributed shared memory",
         .arch = Arch::kSm90});

}  // namespace ws::softmax
#endif
