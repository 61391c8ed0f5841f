// The selective_scan family: its operations, its rungs in teaching order, and which to prefer.
#include <algorithm>

#include "kernels/selective_scan/01_naive.cuh"
#include "kernels/selective_scan/02_state_per_thread.cuh"

namespace ws::selective_scan {

// Rungs of units of their own.
extern const Rung kChannelScan, kWarpScan, kChannelPairs, kChunked, kStaged, kStagedParts,
    kAnyLayout;
extern const Rung kBackwardNaive, kBackwardScan, kBackwardAnyLayout;

namespace {

constexpr const Rung* kRungs[] = {
    &kNaive,  &kStatePerThread, &kChannelScan, &kWarpScan,      &kChannelPairs, &kChunked,
    &kStaged, &kStagedParts,    &kAnyLayout,   &kBackwardNaive, &kBackwardScan, &kBackwardAnyLayout,
};
constexpr Operation kOperations[] = {operation_of<SelectiveScan>(),
                                     operation_of<SelectiveScanBackward>()};

}  // namespace

// A walk in time is as slow as its steps, and is chosen where its warps, 16 channels each, come to
// half of a large device's schedulers: whole lines of many channels, or parts of 256 steps of few.
// It has 16 states and 64 channels of a group, whether they are there or not. Parts cost the
// exponentials twice, where channels alone do not fill the device.
std::span<const Rung* const> SelectiveScan::by_worth(const Call& call) {
  static constexpr const Rung* kMany[] = {&kStaged, &kChannelPairs, &kWarpScan, &kChannelScan,
                                          &kAnyLayout};
  static constexpr const Rung* kLongLines[] = {&kStagedParts, &kChannelPairs, &kWarpScan,
                                               &kChannelScan, &kAnyLayout};
  static constexpr const Rung* kFew[] = {&kChunked, &kChannelScan, &kAnyLayout};
  static constexpr const Rung* kLittle[] = {&kChannelPairs, &kWarpScan, &kChannelScan, &kAnyLayout};
  constexpr int64_t kFewRows = 1024;
  constexpr int64_t kLong = 2048;
  constexpr int64_t kWorthWalking = 4096;
  constexpr int64_t kStatesWorthWalking = 8;
  constexpr int64_t kChannelsWorthWalking = 64;
  const bool is_long = call.length >= kLong;
  if (call.states >= kStatesWorthWalking && call.channels_of_group() >= kChannelsWorthWalking) {
    if (call.rows() >= kWorthWalking) return kMany;
    const int64_t parts = std::min<int64_t>(call.length / 256, 64);
    if (is_long && call.rows() * parts >= kWorthWalking) return kLongLines;
  }
  return is_long && call.rows() < kFewRows ? std::span<const Rung* const>(kFew) : kLittle;
}

std::span<const Rung* const> SelectiveScanBackward::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kAll[] = {&kBackwardScan, &kBackwardAnyLayout};
  return kAll;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "selective_scan",
    .summary = "Mamba's selective scan: linear recurrences whose decay depends on the step",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::selective_scan
