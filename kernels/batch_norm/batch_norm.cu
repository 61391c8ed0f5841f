// The batch_norm family: its one table of rungs, in teaching order.
#include "kernels/batch_norm/01_naive.cuh"
#include "kernels/batch_norm/02_block_per_channel.cuh"
#include "kernels/batch_norm/03_welford.cuh"
#include "kernels/batch_norm/04_vector.cuh"
#include "kernels/batch_norm/09_any_layout.cuh"
#include "kernels/batch_norm/10_backward_naive.cuh"
#include "kernels/batch_norm/11_backward_vector.cuh"
#include "kernels/batch_norm/15_backward_any_layout.cuh"
#include "kernels/batch_norm/bands.hpp"
#include "kernels/batch_norm/grid.hpp"
#include "kernels/batch_norm/lanes.hpp"

namespace ws::batch_norm {

// Rungs of units of their own.
extern const Rung kTwoPassGrid, kChannelOnChip, kChannelsLast, kChannelsLastOnChip;
extern const Rung kBackwardTwoPass, kBackwardOnChip, kBackwardChannelsLast, kBackwardGroups;
extern const Rung kChannelQueue, kBackwardQueue, kBackwardGroupsOnChip;
extern const Rung kSharesOnChip, kBackwardSharesOnChip, kBandsOnChip, kBackwardBandsOnChip;
extern const Rung kGridOnChip, kBackwardGridOnChip, kBackwardGroupsGrid;
extern const Rung kChannelsLastKept, kBackwardChannelsLastKept;
extern const Rung kOneLine;
extern const Rung kGroupsChannelsLast, kGroupsChannelsLastOnChip;
extern const Rung kBackwardGroupsChannelsLast, kBackwardGroupsChannelsLastOnChip;
extern const Rung kLanesPerSet, kBackwardLanesPerChannel;

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
    &kGridOnChip,
    &kBackwardGridOnChip,
    &kBackwardGroupsGrid,
    &kChannelsLastKept,
    &kBackwardChannelsLastKept,
    &kOneLine,
    &kGroupsChannelsLast,
    &kGroupsChannelsLastOnChip,
    &kBackwardGroupsChannelsLast,
    &kBackwardGroupsChannelsLastOnChip,
    &kLanesPerSet,
    &kBackwardLanesPerChannel,
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
// What reads once leads by_worth's lists, as far as it is worth it for a set.
enum Lead : int { kShares, kGrid, kBands, kQueue, kNone };

// Shares and queues want 8 sets, for an H200's 7 to 14 clusters of 16 blocks, that leave few
// threads idle. Shares want a bulk copy of 128 bytes and more for each run that has no neighbour; a
// group's runs all have. Few sets that are more than a block each is worth are also theirs (H200
// 2026-11-30, f16 32 x 3 x 3136, us: 6.8, by the grid 7.5; gradient 6.3 and 8.2). The grid takes
// what no cluster holds, of gradients as far as it gains (f32 256 x 3 x 50176, 103 MB a set of both
// inputs: 196.7 us of 196.5; f16, 51 MB: 90.9 of 105.9). Bands are blocks: they want enough of
// them. A queue takes its time for windows that are not whole, and looks up a group's parameters
// for each.
template <int kInputs, class Call>
Lead lead_of(const Call& call) {
  constexpr int64_t kSets = 8;
  constexpr int64_t kBytes = 4096;
  constexpr int64_t kWindows = 8;
  constexpr int64_t kOfBands = 64;
  constexpr int64_t kOfGradient = 64'000'000;
  const Layout& layout = call.layout;
  const Pieces pieces = pieces_of(layout, call.dtype);
  const bool groups = layout.channel_axis >= 0;
  const auto size = static_cast<int64_t>(size_of(call.dtype));
  const bool many = layout.sets >= kSets && layout.count * size >= kBytes;
  const bool held = windows_of_set(layout, call.dtype) <= ShareShapes<kInputs>::Large::kMostWindows;
  Why nobody;
  if ((groups || pieces.windows >= kWindows) && shares_supported(layout, call.dtype, nobody)) {
    if (held && (groups || many || !takes_blocks(layout))) return kShares;
    if (!held && (kInputs == 1 || kInputs * layout.count * size <= kOfGradient)) return kGrid;
  }
  if (layout.sets * size >= 16 * kOfBands &&
      BandShapes<kInputs>::takes(layout, call.dtype, nobody)) {
    return kBands;
  }
  return many && pieces.windows >= (groups ? 1024 : 32) ? kQueue : kNone;
}
// Whether some lanes hold a set, for which a block is too many.
bool is_small(const Layout& layout, DType dtype) {
  return windows_of_set(layout, dtype) <= kMostWindowsOfLanes;
}
// Whether the grid holds two groups at once. H200 2026-11-30, us: f32 2 x 64 x 512 x 512 in 32
// groups, six at once, 150.2, by backward_groups 167.7; 8 x 3 x 1024 x 1024 in one, of which it
// holds one at a time, 292.7 and 134.0.
bool two_at_once(const BackwardCall& call) {
  return 2 * windows_of_set(call.layout, call.dtype) <= GridShape<2, true>::most_windows();
}
}  // namespace

std::span<const Rung* const> Forward::by_worth(const Call& call) {
  static constexpr const Rung* kMany[] = {&kLanesPerSet,
                                          &kSharesOnChip,
                                          &kGridOnChip,
                                          &kBandsOnChip,
                                          &kChannelQueue,
                                          &kVector,
                                          &kTwoPassGrid,
                                          &kChannelsLastOnChip,
                                          &kChannelsLastKept,
                                          &kChannelsLast,
                                          &kGroupsChannelsLastOnChip,
                                          &kGroupsChannelsLast,
                                          &kAnyLayout};
  static constexpr const Rung* kFew[] = {
      &kSharesOnChip,       &kGridOnChip,   &kBandsOnChip,
      &kChannelQueue,       &kTwoPassGrid,  &kChannelsLastOnChip,
      &kChannelsLastKept,   &kChannelsLast, &kGroupsChannelsLastOnChip,
      &kGroupsChannelsLast, &kAnyLayout};
  static constexpr const Rung* kGiven[] = {&kOneLine, &kTwoPassGrid, &kChannelsLast, &kAnyLayout};
  if (call.given) return kGiven;
  if (is_small(call.layout, call.dtype)) return kMany;
  const auto rungs =
      takes_blocks(call.layout) ? std::span<const Rung* const>(kMany).subspan(1) : kFew;
  return rungs.subspan(lead_of<1>(call));
}
std::span<const Rung* const> Backward::by_worth(const Call& call) {
  static constexpr const Rung* kGroups[] = {&kBackwardLanesPerChannel,
                                            &kBackwardGroupsOnChip,
                                            &kBackwardGroupsGrid,
                                            &kBackwardGroups,
                                            &kBackwardGroupsChannelsLastOnChip,
                                            &kBackwardGroupsChannelsLast,
                                            &kBackwardAnyLayout};
  static constexpr const Rung* kLargeGroups[] = {&kBackwardGroupsOnChip, &kBackwardGroups,
                                                 &kBackwardGroupsChannelsLastOnChip,
                                                 &kBackwardGroupsChannelsLast, &kBackwardAnyLayout};
  static constexpr const Rung* kMany[] = {&kBackwardSharesOnChip,     &kBackwardGridOnChip,
                                          &kBackwardBandsOnChip,      &kBackwardQueue,
                                          &kBackwardVector,           &kBackwardTwoPass,
                                          &kBackwardChannelsLastKept, &kBackwardChannelsLast,
                                          &kBackwardAnyLayout};
  static constexpr const Rung* kFew[] = {&kBackwardSharesOnChip, &kBackwardGridOnChip,
                                         &kBackwardBandsOnChip,  &kBackwardQueue,
                                         &kBackwardTwoPass,      &kBackwardChannelsLastKept,
                                         &kBackwardChannelsLast, &kBackwardAnyLayout};
  if (call.groups && is_small(call.layout, call.dtype)) return kGroups;
  if (call.groups) {
    return two_at_once(call) ? std::span<const Rung* const>(kGroups).subspan(1) : kLargeGroups;
  }
  const auto rungs = takes_blocks(call.layout) ? std::span<const Rung* const>(kMany) : kFew;
  return rungs.subspan(lead_of<2>(call));
}

extern const Family kFamily;
const Family kFamily = {
    .name = "batch_norm",
    .summary = "batch, group and instance norm: training, inference, gradients, NCHW and NHWC",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::batch_norm
