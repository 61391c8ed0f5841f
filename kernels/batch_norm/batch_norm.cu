// The batch_norm family: its one table of rungs, in teaching order.
#include "kernels/batch_norm/01_naive.cuh"
#include "kernels/batch_norm/02_block_per_channel.cuh"
#include "kernels/batch_norm/03_welford.cuh"
#include "kernels/batch_norm/04_vector.cuh"
#include "kernels/batch_norm/09_any_layout.cuh"
#include "kernels/batch_norm/10_backward_naive.cuh"
#include "kernels/batch_norm/11_backward_vector.cuh"
#include "kernels/batch_norm/15_backward_any_layout.cuh"

namespace ws::batch_norm {

// Rungs of units of their own.
extern const Rung kTwoPassGrid, kChannelOnChip, kChannelsLast, kChannelsLastOnChip;
extern const Rung kBackwardTwoPass, kBackwardOnChip, kBackwardChannelsLast, kBackwardGroups;

namespace {

constexpr Operation kOperations[] = {
    operation_of<BatchNormForward>(),   operation_of<BatchNormTraining>(),
    operation_of<BatchNormInference>(), operation_of<BatchNormBackward>(),
    operation_of<GroupNormForward>(),   operation_of<GroupNormBackward>()};

constexpr const Rung* kRungs[] = {
    &kNaive,          &kBlockPerChannel,      &kWelford,           &kVector,
    &kTwoPassGrid,    &kChannelOnChip,        &kChannelsLast,      &kChannelsLastOnChip,
    &kAnyLayout,      &kBackwardNaive,        &kBackwardVector,    &kBackwardTwoPass,
    &kBackwardOnChip, &kBackwardChannelsLast, &kBackwardAnyLayout, &kBackwardGroups,
};

}  // namespace

namespace {
// Measured on an H200: a block a set is the fastest where sets are three an SM and more; fewer are
// cut over the grid, if they are worth its three launches (that was not measured).
bool takes_blocks(const Layout& layout) {
  constexpr int64_t kSets = 384;
  constexpr int64_t kElements = 32768;
  return layout.sets >= kSets || layout.count <= kElements;
}
}  // namespace

std::span<const Rung* const> Forward::by_worth(const Call& call) {
  static constexpr const Rung* kMany[] = {&kVector, &kTwoPassGrid, &kChannelsLastOnChip,
                                          &kChannelsLast, &kAnyLayout};
  static constexpr const Rung* kFew[] = {&kTwoPassGrid, &kChannelsLastOnChip, &kChannelsLast,
                                         &kAnyLayout};
  return takes_blocks(call.layout) ? std::span<const Rung* const>(kMany) : kFew;
}
std::span<const Rung* const> Backward::by_worth(const Call& call) {
  static constexpr const Rung* kGroups[] = {&kBackwardGroups, &kBackwardAnyLayout};
  static constexpr const Rung* kMany[] = {&kBackwardVector, &kBackwardTwoPass,
                                          &kBackwardChannelsLast, &kBackwardAnyLayout};
  static constexpr const Rung* kFew[] = {&kBackwardTwoPass, &kBackwardChannelsLast,
                                         &kBackwardAnyLayout};
  if (call.groups) return kGroups;
  return takes_blocks(call.layout) ? std::span<const Rung* const>(kMany) : kFew;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "batch_norm",
    .summary = "batch, group and instance norm: training, inference, gradients, NCHW and NHWC",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::batch_norm
