// The selective_scan family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/selective_scan/01_naive.cuh"
#include "kernels/selective_scan/02_state_per_thread.cuh"

namespace ws::selective_scan {

// Rungs of units of their own.
extern const Rung kChannelScan, kWarpScan, kChannelPairs, kChunked, kAnyLayout;
extern const Rung kBackwardNaive, kBackwardScan, kBackwardAnyLayout;

namespace {

constexpr const Rung* kRungs[] = {
    &kNaive,   &kStatePerThread, &kChannelScan,   &kWarpScan,     &kChannelPairs,
    &kChunked, &kAnyLayout,      &kBackwardNaive, &kBackwardScan, &kBackwardAnyLayout,
};
constexpr Operation kOperations[] = {operation_of<SelectiveScan>(),
                                     operation_of<SelectiveScanBackward>()};

}  // namespace

// Parts cost the exponentials twice, where channels alone do not fill the device.
std::span<const Rung* const> SelectiveScan::by_worth(const Call& call) {
  static constexpr const Rung* kMany[] = {&kChannelPairs, &kWarpScan, &kChannelScan, &kAnyLayout};
  static constexpr const Rung* kFew[] = {&kChunked, &kChannelScan, &kAnyLayout};
  constexpr int64_t kFewRows = 1024;
  constexpr int64_t kLong = 2048;
  if (call.rows() < kFewRows && call.length >= kLong) return kFew;
  return kMany;
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
