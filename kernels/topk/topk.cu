// The topk family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/topk/01_thread_per_row.cuh"
#include "kernels/topk/02_warp_per_row.cuh"
#include "kernels/topk/03_rank.cuh"
#include "kernels/topk/04_packed_keys.cuh"
#include "kernels/topk/05_bitonic.cuh"

namespace ws::topk {

// Rungs of units of their own.
extern const Rung kSortRegisters, kSortedLanes, kThreshold, kFilter, kMergeRuns;

namespace {

constexpr const Rung* kRungs[] = {
    &kThreadPerRow,  &kWarpPerRow,  &kRank,      &kPackedKeys, &kBitonic,
    &kSortRegisters, &kSortedLanes, &kThreshold, &kFilter,     &kMergeRuns,
};
constexpr Operation kOperations[] = {operation_of<TopK>(), operation_of<Sort>()};

// Short rows to warps, long ones to blocks; what they do not take is sorted.
constexpr const Rung* kSelectByWorth[] = {&kSortedLanes, &kThreshold, &kFilter, &kSortRegisters,
                                          &kMergeRuns};
constexpr const Rung* kSortByWorth[] = {&kSortRegisters, &kMergeRuns};

}  // namespace

std::span<const Rung* const> TopK::by_worth(const Call& /*call*/) { return kSelectByWorth; }
std::span<const Rung* const> Sort::by_worth(const Call& /*call*/) { return kSortByWorth; }

extern const Family kFamily;
const Family kFamily = {
    .name = "topk",
    .summary = "The best k elements of rows and their places, and rows in order",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::topk
