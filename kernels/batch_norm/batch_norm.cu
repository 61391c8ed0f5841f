// The batch_norm family: its one table of rungs, in teaching order.
#include "kernels/batch_norm/01_naive.cuh"
#include "kernels/batch_norm/02_block_per_channel.cuh"
#include "kernels/batch_norm/03_welford.cuh"
#include "kernels/batch_norm/04_vector.cuh"
#include "kernels/batch_norm/09_any_layout.cuh"
#include "kernels/batch_norm/10_backward_naive.cuh"
#include "kernels/batch_norm/11_backward_vector.cuh"
#include "kernels/batch_norm/15_backward_any_layout.cuh"
#include "kernels/batch_norm/shares.hpp"

namespace ws::batch_norm {

// Rungs of units of their own.
extern const Rung kTwoPassGrid, kChannelOnChip, kChannelsLast, kChannelsLastOnChip;
extern const Rung kBackwardTwoPass, kBackwardOnChip, kBackwardChannelsLast, kBackwardGroups;
extern const Rung kChannelQueue, kBackwardQueue, kBackwardGroupsOnChip;
extern const Rung kSharesOnChip, kBackwardSharesOnChip, kBandsOnChip, kBackwardBandsOnChip;

namespace {

constexpr Operation kOperations[] = {
    operation_of<BatchNormForward>(),   operation_of<BatchNormTraining>(),
    operation_of<BatchNormInference>(), operation_of<BatchNormBackward>(),
    operation_of<GroupNormForward>(),   operation_of<GroupNormBackward>()};

constexpr const Rung* kRungs[] = {
    &kNaive,
    &kBlockPerChannel,
    &kWelford,
    &kVector,
    &kTwoPassGrid,
    &kChannelOnChip,
    &kChannelsLast,
    &kChannelsLastOnChip,
    &kAnyLayout,
    &kBackwardNaive,
    &kBackwardVector,
    &kBackwardTwoPass,
    &kBackwardOnChip,
    &kBackwardChannelsLast,
    &kBackwardAnyLayout,
    &kBackwardGroups,
    &kChannelQueue,
    &kBackwardQueue,
    &kBackwardGroupsOnChip,
    &kSharesOnChip,
    &kBackwardSharesOnChip,
    &kBandsOnChip,
    &kBackwardBandsOnChip,
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
// A queue reads once what others read twice. It wants 8 sets for an H200's 8 clusters of 16 blocks,
// sets that leave few threads idle, and runs that are whole windows for the most part. H200, us,
// beside the fastest other: channels f32 32 x 64 x 12544 69 of 94, 32 x 512 x 784 40 of 49, 128 x
// 2048 x 49 61 of 53; groups of 8 channels x 3136 f32 87 of 90, f16 50 of 45, of 2 x 12544 67 of 75
// and 43 of 46. Groups of several channels go to `groups_on_chip` where it takes them (H200
// 2026-11-26: 1.16 to 1.5 times).
template <class Call>
bool takes_queue(const Call& call) {
  constexpr int64_t kSets = 8;
  constexpr int64_t kBytes = 4096;
  const Pieces pieces = pieces_of(call.layout, call.dtype);
  const bool groups = call.layout.channel_axis >= 0;
  if (groups && pieces.aligned && pieces.count * pieces.windows <= ShareShapes<1>::Large::kMostWindows) {
    return false;
  }
  const int64_t windows = groups ? 1024 : pieces.aligned ? 1 : 32;  // of a run, at least
  return call.layout.sets >= kSets && pieces.windows >= windows &&
         call.layout.count * static_cast<int64_t>(size_of(call.dtype)) >= kBytes;
}
// `rungs` begin with a queue.
std::span<const Rung* const> with_queue(bool queue, std::span<const Rung* const> rungs) {
  return rungs.subspan(queue ? 0 : 1);
}
}  // namespace

std::span<const Rung* const> Forward::by_worth(const Call& call) {
  static constexpr const Rung* kMany[] = {&kChannelQueue,       &kVector,       &kTwoPassGrid,
                                          &kChannelsLastOnChip, &kChannelsLast, &kAnyLayout};
  static constexpr const Rung* kFew[] = {&kChannelQueue, &kTwoPassGrid, &kChannelsLastOnChip,
                                         &kChannelsLast, &kAnyLayout};
  static constexpr const Rung* kManyGroups[] = {&kSharesOnChip, &kVector, &kTwoPassGrid,
                                                &kAnyLayout};
  static constexpr const Rung* kFewGroups[] = {&kSharesOnChip, &kTwoPassGrid, &kAnyLayout};
  const bool many = takes_blocks(call.layout);
  const bool queue = takes_queue(call);
  if (call.layout.channel_axis >= 0 && !queue) {
    return many ? std::span<const Rung* const>(kManyGroups) : kFewGroups;
  }
  return with_queue(queue, many ? std::span<const Rung* const>(kMany) : kFew);
}
std::span<const Rung* const> Backward::by_worth(const Call& call) {
  static constexpr const Rung* kGroups[] = {&kBackwardGroupsOnChip, &kBackwardGroups,
                                            &kBackwardAnyLayout};
  static constexpr const Rung* kMany[] = {&kBackwardQueue, &kBackwardVector, &kBackwardTwoPass,
                                          &kBackwardChannelsLast, &kBackwardAnyLayout};
  static constexpr const Rung* kFew[] = {&kBackwardQueue, &kBackwardTwoPass, &kBackwardChannelsLast,
                                         &kBackwardAnyLayout};
  if (call.groups) return kGroups;
  return with_queue(takes_queue(call),
                    takes_blocks(call.layout) ? std::span<const Rung* const>(kMany) : kFew);
}

extern const Family kFamily;
const Family kFamily = {
    .name = "batch_norm",
    .summary = "batch, group and instance norm: training, inference, gradients, NCHW and NHWC",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::batch_norm
