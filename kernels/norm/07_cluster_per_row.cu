// Idea: a cluster of up to 16 blocks owns a row; each keeps its part in registers, and the blocks
// merge their totals through distributed shared memory, in one exchange: (count, mean, squares) of
// layer_norm, whose squares each warp took from its own mean.
// From row_in_registers: rows of up to 1 MiB are still read once.
// Traffic: one read, one write; a few hundred bytes between SMs for a row.
// Limits: rows of whole vectors, from 16 KiB on; 16 blocks of 64 KiB, with a residual, which holds
// two rows, of 32 KiB. A cluster of more than 8 is not portable beyond Hopper.
#include <bit>

#include "kernels/norm/rows.hpp"
#include "warpsmith/cluster/reduce.hpp"
#include "warpsmith/launch.hpp"

namespace ws::norm {
namespace {

template <class T, bool kCentred, bool kResidual, int kVectors>
struct ClusterPerRowKernel {
  static constexpr int kThreads = 512;
  static constexpr Arch kArch = Arch::kSm90;
  static constexpr int kWidth = row::kWidest<T>;
  using Totals = norm::Totals<kCentred>;
  using Reduce = cluster::AllReduce<typename Totals::Total, kThreads>;
  struct Arguments {
    Rows<T> rows;
    int64_t part;  // of a row that a block takes, in vectors
  };
  struct SharedStorage {
    typename Reduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t r = block_index() / cluster_size();
    const int64_t first = cluster_rank() * a.part;
    const int64_t left = a.rows.vectors - first;
    const auto vectors = static_cast<int>(left < 0 ? 0 : (left < a.part ? left : a.part));
    const auto holds = [&](int v) { return thread_index() + v * kThreads < vectors; };
    const auto at = [&](int v) { return first + thread_index() + v * kThreads; };

    Input<T, kResidual, kVectors> input(a.rows, r, at, holds);  // in flight while the cluster meets
    const Parameters<T, kVectors, kCentred> parameters(a.rows, at, holds);
    Reduce all_reduce(shared.total);
    input.add(a.rows, r, at, holds);
    const float count = warp_count<kVectors, kWidth>(vectors, kThreads);
    const auto mine = total_of<kCentred, kWarpSize, kVectors>(
        [&](int v) { return input.x[v]; },
        [&](int v) { return !kCentred || holds(v); },  // squares of 0 add nothing
        count);
    const auto total = all_reduce.of_warps(mine, Totals::none(), typename Totals::Merge{});
    const Normal<kCentred> normal(a.rows, total);
    if (cluster_rank() == 0 && thread_index() == 0) normal.store_statistics(a.rows, r);
    store_row(a.rows, r, input.x, normal, parameters, at, holds);
    all_reduce.finish();
  }
};

struct ClusterPerRow {
  // Of a row of each input that a block holds.
  static constexpr int64_t kPart = 32 * 1024;
  static constexpr int64_t kLeastBytes = 16 * 1024;  // less leaves most of a block's threads idle
  template <class Call>
  static int64_t most_bytes(const Call& call) {
    return cluster::kMaxBlocks * (call.rows.size[kResidual] != 0 ? kPart : 2 * kPart);
  }

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const int64_t bytes = call.rows.row_bytes();
    return why.unless(bytes >= kLeastBytes && bytes <= most_bytes(call), "takes rows of ",
                      kLeastBytes, " to ", most_bytes(call), " bytes, not ", bytes) &&
           why.unless(call.rows.rows <= kMostBlocks / cluster::kMaxBlocks, "takes up to ",
                      kMostBlocks / cluster::kMaxBlocks, " rows, not ", call.rows.rows) &&
           aligned_rows(call, why);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Rows<T> rows = rows_of<T>(call);
      constexpr bool kCentred = Call::kCentred;
      if (rows.residual != nullptr) {
        launch_on<ClusterPerRowKernel<T, kCentred, true, 4>>(rows, kPart, context);
      } else if (rows.vectors * 16 <= cluster::kMaxBlocks * kPart) {
        launch_on<ClusterPerRowKernel<T, kCentred, false, 4>>(rows, kPart, context);
      } else {
        launch_on<ClusterPerRowKernel<T, kCentred, false, 8>>(rows, 2 * kPart, context);
      }
    });
  }

 private:
  template <class Kernel, class T>
  static void launch_on(const Rows<T>& rows, int64_t part_bytes, const Context& context) {
    const auto parts = static_cast<uint64_t>(divide_up(rows.vectors * 16, part_bytes));
    const auto blocks = static_cast<int>(std::bit_ceil(parts));
    launch<Kernel>({.blocks = rows.count * blocks, .threads = Kernel::kThreads, .cluster = blocks},
                   context.stream, {rows, divide_up(rows.vectors, int64_t{blocks})});
  }
};

}  // namespace

extern const Rung kClusterPerRow;
const Rung kClusterPerRow = rung_of<ClusterPerRow, LayerNorm, RmsNorm>({
    .name = "cluster_per_row",
    .from = "row_in_registers",
    .idea = "a row over up to 16 blocks, totals merged in one exchange",
    .arch = Arch::kSm90,
});

}  // namespace ws::norm
