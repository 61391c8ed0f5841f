// The cross_entropy family: its one table of rungs, in teaching order.
#include "kernels/cross_entropy/01_naive.cuh"
#include "kernels/cross_entropy/02_block_per_row.cuh"
#include "kernels/cross_entropy/03_online.cuh"
#include "kernels/cross_entropy/04_vector.cuh"
#include "kernels/cross_entropy/05_any_layout.cuh"
#include "kernels/cross_entropy/07_stream.cuh"
#include "kernels/cross_entropy/08_backward_naive.cuh"
#include "kernels/cross_entropy/09_backward_vector.cuh"
#include "kernels/cross_entropy/11_fused_two_pass.cuh"
#include "kernels/cross_entropy/13_fused_cluster.cuh"
#include "kernels/cross_entropy/14_fused_queue.cuh"

namespace ws::cross_entropy {

// Rungs of units of their own.
extern const Rung kRowInRegisters, kBackwardInRegisters, kFusedInRegisters;

namespace {

constexpr Operation kOperations[] = {operation_of<CrossEntropyForward>(),
                                     operation_of<CrossEntropyBackward>(),
                                     operation_of<CrossEntropyFused>()};

constexpr const Rung* kRungs[] = {
    &kNaive,          &kBlockPerRow,      &kOnline,        &kVector,         &kAnyLayout,
    &kRowInRegisters, &kStream,           &kBackwardNaive, &kBackwardVector, &kBackwardInRegisters,
    &kFusedTwoPass,   &kFusedInRegisters, &kFusedCluster,  &kFusedQueue,
};

}  // namespace

// Short rows stay with a few lanes; long ones flow, where there are enough of them for every block
// to go on to another.
std::span<const Rung* const> CrossEntropyForward::by_worth(const Call& call) {
  static constexpr const Rung* kFewRows[] = {&kRowInRegisters, &kVector, &kStream, &kAnyLayout};
  static constexpr const Rung* kManyRows[] = {&kRowInRegisters, &kStream, &kVector, &kAnyLayout};
  constexpr int64_t kRowsForStream = 1024;
  constexpr int64_t kBytesForStream = 32 * 1024;
  const bool flows = call.rows.rows >= kRowsForStream && call.rows.row_bytes() >= kBytesForStream;
  if (flows) return kManyRows;
  return kFewRows;
}
std::span<const Rung* const> CrossEntropyBackward::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kRungsByWorth[] = {&kBackwardInRegisters, &kBackwardVector,
                                                  &kAnyLayout};
  return kRungsByWorth;
}
std::span<const Rung* const> CrossEntropyFused::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kRungsByWorth[] = {&kFusedInRegisters, &kFusedQueue, &kFusedCluster,
                                                  &kFusedTwoPass, &kAnyLayout};
  return kRungsByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "cross_entropy",
    .summary = "cross-entropy of class indices, its gradient, and both in one pass",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::cross_entropy
