// The softmax family: its operations, its rungs in teaching order, and which is worth most.
#include "kernels/softmax/01_naive.cuh"
#include "kernels/softmax/02_safe.cuh"
#include "kernels/softmax/03_online.cuh"
#include "kernels/softmax/04_warp_per_row.cuh"
#include "kernels/softmax/05_warp_registers.cuh"
#include "kernels/softmax/06_block_per_row.cuh"
#include "kernels/softmax/07_block_shared.cuh"
#include "kernels/softmax/08_block_uncached.cuh"
#include "kernels/softmax/09_grid_fence.cuh"
#include "kernels/softmax/11_cluster_per_row.cuh"

namespace ws::softmax {

extern const Rung kRowInRegisters;
extern const Rung kClusterQueue;
extern const Rung kGridOnChip;
extern const Rung kColumns;
extern const Rung kColumnsInCluster;

namespace {

constexpr Operation kOperations[] = {
    operation_of<Softmax>(),
    operation_of<LogSoftmax>(),
    operation_of<ScaleMaskSoftmax>(),
    operation_of<SoftmaxBackward>(),
    operation_of<LogSoftmaxBackward>(),
    operation_of<ScaleMaskSoftmaxBackward>(),
};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kSafe,          &kOnline,           &kWarpPerRow,    &kWarpRegisters,
    &kBlockPerRow,   &kBlockPerRowX2, &kBlockPerRowX4,    &kBlockPerRowX8, &kBlockShared,
    &kBlockUncached, &kGridFence,     &kRowInRegisters,   &kClusterPerRow, &kClusterQueue,
    &kGridOnChip,    &kColumns,       &kColumnsInCluster,
};

constexpr int64_t kRowsThatFillTheDevice = 64;

// Long columns, whose elements do not lie side by side: no rung for rows takes them. Shorter ones
// than those of 32 elements, and fewer bytes, were not measured.
constexpr const Rung* kLongColumns[] = {&kColumnsInCluster, &kColumns, &kWarpPerRow};
bool has_long_columns(const RowsCall& call) {
  constexpr int64_t kElements = 32;
  constexpr int64_t kBytes = 1 << 20;
  return call.rows.inner[0] != 1 && call.rows.columns >= kElements &&
         call.rows.rows * call.rows.row_bytes() >= kBytes;
}

// A cluster for each row or clusters that stay: of 16 bits those that stay. H200 2026-11-30, f32,
// us: softmax of 4096 x 65536 512 and 520, of 8192 x 50257 801 and 812, of 1024 x 262144 535 and
// 525, gradients 732 and 739, 1126 and 1302. With masks it was not measured.
constexpr const Rung* kForEachRow[] = {&kRowInRegisters, &kClusterPerRow, &kClusterQueue,
                                       &kBlockShared,    &kBlockUncached, &kColumns,
                                       &kWarpPerRow};
bool wants_cluster_for_each(const RowsCall& call) {
  constexpr int64_t kBytes = 256 * 1024;
  return call.dtype == DType::kF32 && call.rows.rows >= kRowsThatFillTheDevice &&
         call.rows.row_bytes() <= kBytes;
}

// Rows that threads can hold stay in a block, longer ones in a cluster, few that are longer still
// in the whole grid. The rest is read twice; columns have a rung, other strided rows a warp each.
std::span<const Rung* const> forward_by_worth(const RowsCall& call, bool is_masked = false) {
  static constexpr const Rung* kMany[] = {&kRowInRegisters, &kClusterQueue,  &kBlockShared,
                                          &kClusterPerRow,  &kBlockUncached, &kGridFence,
                                          &kColumns,        &kWarpPerRow};
  static constexpr const Rung* kFew[] = {&kRowInRegisters, &kClusterQueue, &kGridOnChip,
                                         &kGridFence,      &kBlockShared,  &kClusterPerRow,
                                         &kBlockUncached,  &kColumns,      &kWarpPerRow};
  if (has_long_columns(call)) return kLongColumns;
  if (!is_masked && wants_cluster_for_each(call)) return kForEachRow;
  if (call.rows.rows < kRowsThatFillTheDevice) return kFew;
  return kMany;
}

std::span<const Rung* const> backward_by_worth(const RowsCall& call, bool is_masked = false) {
  static constexpr const Rung* kMany[] = {&kRowInRegisters, &kClusterQueue, &kBlockShared,
                                          &kBlockUncached,  &kColumns,      &kWarpPerRow};
  static constexpr const Rung* kFew[] = {&kRowInRegisters, &kClusterQueue,  &kGridOnChip,
                                         &kBlockShared,    &kBlockUncached, &kColumns,
                                         &kWarpPerRow};
  if (has_long_columns(call)) return kLongColumns;
  if (!is_masked && wants_cluster_for_each(call)) return kForEachRow;
  if (call.rows.rows < kRowsThatFillTheDevice) return kFew;
  return kMany;
}

}  // namespace

std::span<const Rung* const> Softmax::by_worth(const Call& call) { return forward_by_worth(call); }
std::span<const Rung* const> LogSoftmax::by_worth(const Call& call) {
  return forward_by_worth(call);
}
std::span<const Rung* const> ScaleMaskSoftmax::by_worth(const Call& call) {
  return forward_by_worth(call, /*is_masked=*/true);
}
std::span<const Rung* const> SoftmaxBackward::by_worth(const Call& call) {
  return backward_by_worth(call);
}
std::span<const Rung* const> LogSoftmaxBackward::by_worth(const Call& call) {
  return backward_by_worth(call);
}
std::span<const Rung* const> ScaleMaskSoftmaxBackward::by_worth(const Call& call) {
  // cluster_queue with masks was not measured, and may gain less than 1.3 times here.
  static constexpr const Rung* kClusterForEach[] = {&kRowInRegisters, &kClusterPerRow,
                                                    &kBlockUncached, &kWarpPerRow};
  const int64_t most = (size_of(call.dtype) == 2 ? 32 : 512) * 1024;
  if (call.rows.row_bytes() <= most) return kClusterForEach;
  return backward_by_worth(call, /*is_masked=*/true);
}

extern const Family kFamily;
const Family kFamily = {
    .name = "softmax",
    .summary =
        "softmax, log_softmax and masked softmax over the last dimension, and their gradients",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::softmax
