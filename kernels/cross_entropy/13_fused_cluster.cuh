// Idea: a cluster of up to 16 blocks owns a row; each keeps its part in registers, and the blocks
// merge their totals through distributed shared memory.
// From fused_in_registers: rows of up to 1 MiB are still read once. The thread that
// has the target's column reads its logit before it writes it, and stores the loss.
// Traffic: one read, one write, a few hundred bytes between SMs for a row.
// Limits: rows of whole vectors, 16 blocks of 64 KiB; not both weights and label_smoothing.
#pragma once

#include <bit>

#include "kernels/cross_entropy/row_share.hpp"

namespace ws::cross_entropy {

#if WS_DEVICE_CODE
template <class T>
struct FusedClusterKernel {
  static constexpr int kThreads = 512;
  static constexpr int kVectors = 8;
  static constexpr int64_t kBytes = int64_t{16} * kThreads * kVectors;  // of a part
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = kWidest<T>;
  using Share = row::Share<kWidth, kThreads, kVectors, Fit::kAligned>;
  using Part = RowShare<T, Share, true>;
  using AllReduce = cluster::AllReduce<Total, kThreads>;
  struct Arguments {
    Rows<T> rows;
    int64_t part;  // of a row that a block takes, in vectors
  };
  struct SharedStorage {
    typename AllReduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Rows<T>& rows = a.rows;
    const int64_t row = block_index() / cluster_size();
    const T* x = rows.logits + row * rows.stride;
    typename Share::CutOf cut(x, rows.columns);
    const int64_t first = cut.keep_part(cluster_rank(), a.part);
    const Share share(cut, thread_index());
    Part part(share, x + first);  // in flight while the cluster meets
    const Numbers numbers = Numbers::load(rows, row);
    AllReduce all_reduce(shared.total);
    const Merge merge{rows.formula.smooths()};
    all_reduce.send_warps(part.template total<kWarpSize>(rows.formula), merge);
    const Beside<T> beside(
        rows, row, numbers, cluster_rank() == 0 && thread_index() == 0,
        [&](int column) { return has_column(share, column, static_cast<int>(first)); },
        [&](int column) { return to_float(thread::load(x + column)); });
    const Total total = all_reduce.receive(Total{}, merge);
    beside.store_gradient(rows, row, total, part, first);
    beside.store_loss(rows, row, total);
    all_reduce.finish();
  }
};

struct FusedCluster {
  static constexpr int64_t kBytes = FusedClusterKernel<float>::kBytes;

  static bool supports(const Call& call, Why& why) {
    constexpr int64_t kMost = cluster::kMaxBlocks * kBytes;
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes <= kMost, "a cluster's registers hold rows of up to ", kMost,
                      " bytes, not ", bytes) &&
           why.unless(call.rows.rows <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " rows, not ", call.rows.rows) &&
           aligned_vectors_supported(call, why);
  }
  static void run(const Call& call, const Context& context) {
    const auto blocks = static_cast<int>(
        std::bit_ceil(static_cast<uint64_t>(divide_up(call.rows.row_bytes(), kBytes))));
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = FusedClusterKernel<T>;
      launch<Kernel>(
          {.blocks = call.rows.rows * blocks, .threads = Kernel::kThreads, .cluster = blocks},
          context.stream,
          {rows_of<T>(call, "cross_entropy_fused/fused_cluster"),
           part_vectors(call.rows, kWidest<T>, blocks)});
    });
  }
};

inline constexpr Rung kFusedCluster = rung_of<FusedCluster, CrossEntropyFused>(
    {.name = "fused_cluster",
     .from = "fused_in_registers",
     .idea = "a row over up to 16 blocks, totals merged through distributed shared memory",
     .arch = Arch::kSm90});
#endif

}  // namespace ws::cross_entropy
