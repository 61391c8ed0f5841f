// The histogram family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/histogram/01_global_atomics.cuh"
#include "kernels/histogram/02_vector.cuh"
#include "kernels/histogram/03_shared.cuh"
#include "kernels/histogram/04_copy_per_lane.cuh"
#include "kernels/histogram/09_weights.cuh"

namespace ws::histogram {

extern const Rung kStreamed;
extern const Rung kBytes;
extern const Rung kPackedCounters;
extern const Rung kAnyLayout;
extern const Rung kWeightsAnyLayout;
extern const Rung kWeightsOwnColumn;
extern const Rung kOneComparison;

namespace {

constexpr Operation kOperations[] = {
    operation_of<CountBins>(),    operation_of<SumBins>(),    operation_of<Histc>(),
    operation_of<CountBetween>(), operation_of<SumBetween>(),
};

constexpr const Rung* kRungs[] = {
    &kGlobalAtomics,    &kVector,           &kShared,
    &kCopyPerLane,      &kStreamed,         &kBytes,
    &kPackedCounters,   &kAnyLayout,        &kWeights,
    &kWeightsAnyLayout, &kWeightsOwnColumn, &kOneComparison,
};

constexpr const Rung* kCounting[] = {&kBytes, &kStreamed, &kPackedCounters, &kAnyLayout};
constexpr const Rung* kComparing[] = {&kOneComparison, &kStreamed, &kAnyLayout};
constexpr const Rung* kDividing[] = {&kStreamed, &kOneComparison, &kAnyLayout};
constexpr const Rung* kSumming[] = {&kWeightsOwnColumn, &kWeightsAnyLayout};

}  // namespace

std::span<const Rung* const> CountBins::by_worth(const Call& /*call*/) { return kCounting; }
std::span<const Rung* const> SumBins::by_worth(const Call& /*call*/) { return kSumming; }
std::span<const Rung* const> Histc::by_worth(const Call& call) {
  // Edges cost 4 us; in 16 bits an element costs 8.5 instructions with them and 17 without.
  return size_of(call.dtype) == 2 && call.count >= int64_t{1} << 25 ? kComparing : kDividing;
}
std::span<const Rung* const> CountBetween::by_worth(const Call& /*call*/) { return kComparing; }
std::span<const Rung* const> SumBetween::by_worth(const Call& /*call*/) { return kSumming; }

extern const Family kFamily;
const Family kFamily = {
    .name = "histogram",
    .summary = "How often values occur, how many numbers lie between edges, weighted sums of bins",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::histogram
