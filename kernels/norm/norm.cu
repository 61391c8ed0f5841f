// The norm family: its one table of rungs, in teaching order.
#include "kernels/norm/01_thread_per_row.cuh"
#include "kernels/norm/02_warp_per_row.cuh"
#include "kernels/norm/04_welford.cuh"
#include "kernels/norm/05_any_layout.cuh"
#include "kernels/norm/09_backward_per_row.cuh"
#include "kernels/norm/10_backward_recompute.cuh"

namespace ws::norm {

// Rungs of units of their own.
extern const Rung kBlockPerRow, kBlockPerRowX4, kBlockPerRowX8, kBlockPerRowX8Pack;
extern const Rung kBlockPerRowAccF16, kBlockPerRowX2AccF16, kBlockPerRowX8AccF16,
    kBlockPerRowX8PackAccF16;
extern const Rung kBackwardAnyLayout, kBackwardInRegisters, kBackwardCluster, kBackwardTwoPass;
extern const Rung kRowInRegisters, kClusterPerRow, kClusterQueue;

namespace {

constexpr const Rung* kRungs[] = {
    &kThreadPerRow,
    &kWarpPerRow,
    &kBlockPerRow,
    &kBlockPerRowX4,
    &kBlockPerRowX8,
    &kBlockPerRowX8Pack,
    &kBlockPerRowAccF16,
    &kBlockPerRowX2AccF16,
    &kBlockPerRowX8AccF16,
    &kBlockPerRowX8PackAccF16,
    &kWelford,
    &kAnyLayout,
    &kRowInRegisters,
    &kClusterPerRow,
    &kClusterQueue,
    &kBackwardPerRow,
    &kBackwardRecompute,
    &kBackwardAnyLayout,
    &kBackwardInRegisters,
    &kBackwardCluster,
    &kBackwardTwoPass,
};
constexpr Operation kOperations[] = {operation_of<LayerNorm>(), operation_of<RmsNorm>(),
                                     operation_of<LayerNormBackward>(),
                                     operation_of<RmsNormBackward>()};

// Rows that threads can hold stay with them, longer ones go to the queue; what it does not take, a
// residual, to a cluster.
constexpr const Rung* kForwardByWorth[] = {&kRowInRegisters, &kClusterQueue, &kClusterPerRow,
                                           &kAnyLayout};
// Of layer_norm, whose parameters are worth keeping sooner, where there are rows enough to keep
// them for. H200 2026-11-21, % of copy: f32 N = 4096 96, 16-bit N = 16384 93.
constexpr const Rung* kQueueFirst[] = {&kClusterQueue, &kRowInRegisters, &kClusterPerRow,
                                       &kAnyLayout};
constexpr int64_t kRowsForQueue = 2048;

constexpr const Rung* kBackwardByWorth[] = {&kBackwardInRegisters, &kBackwardCluster,
                                            &kBackwardTwoPass, &kBackwardAnyLayout};

}  // namespace

std::span<const Rung* const> LayerNorm::by_worth(const Call& call) {
  const int64_t long_row = (call.dtype == DType::kF32 ? 16 : 32) * 1024;
  if (call.rows.rows >= kRowsForQueue && call.rows.row_bytes() >= long_row) return kQueueFirst;
  return kForwardByWorth;
}
std::span<const Rung* const> RmsNorm::by_worth(const Call& /*call*/) { return kForwardByWorth; }

std::span<const Rung* const> LayerNormBackward::by_worth(const Call& /*call*/) {
  return kBackwardByWorth;
}
std::span<const Rung* const> RmsNormBackward::by_worth(const Call& /*call*/) {
  return kBackwardByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "norm",
    .summary = "layer_norm and rms_norm over the last dimension, and their gradients",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::norm
