// The topk family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/topk/01_thread_per_row.cuh"
#include "kernels/topk/02_warp_per_row.cuh"
#include "kernels/topk/03_rank.cuh"
#include "kernels/topk/04_packed_keys.cuh"
#include "kernels/topk/05_bitonic.cuh"

namespace ws::topk {

// Rungs of units of their own.
extern const Rung kSortRegisters, kSortedLanes, kThreshold, kFilter, kMergeRuns, kRadixRows,
    kRadixPasses;

namespace {

constexpr const Rung* kRungs[] = {
    &kThreadPerRow, &kWarpPerRow, &kRank,   &kPackedKeys, &kBitonic,   &kSortRegisters,
    &kSortedLanes,  &kThreshold,  &kFilter, &kMergeRuns,  &kRadixRows, &kRadixPasses,
};
constexpr Operation kOperations[] = {operation_of<TopK>(), operation_of<Sort>()};

// Short rows to warps, long ones to blocks; what they do not take is sorted.
constexpr const Rung* kSelectByWorth[] = {&kSortedLanes, &kThreshold,     &kFilter,
                                          &kRadixRows,   &kSortRegisters, &kMergeRuns};
constexpr const Rung* kSelectFromFewByWorth[] = {&kSortedLanes,   &kThreshold, &kFilter,
                                                 &kSortRegisters, &kRadixRows, &kMergeRuns};
constexpr const Rung* kSortByWorth[] = {&kRadixRows, &kSortRegisters, &kMergeRuns};
constexpr const Rung* kSortFewByWorth[] = {&kSortRegisters, &kRadixRows, &kMergeRuns};
// Rows that no block holds.
constexpr const Rung* kSelectFromManyByWorth[] = {&kFilter, &kRadixPasses, &kMergeRuns};
constexpr const Rung* kSortManyByWorth[] = {&kRadixPasses, &kMergeRuns};

// Whether a network sorts a row faster than passes by digits: H200, us, f32, network and digits:
// 65536 x 256 190 and 424, 16384 x 1024 281 and 194, 4096 x 8192 1024 and 451.
bool suits_network(const Selection& call) { return call.rows.columns <= 256; }

// Whether passes over tiles sort rows that no block holds faster than merges. Four
// passes are 12 launches, which cost as much as all merges of a few rows; two are 6. H100, us, f32,
// 256 x 131072: 1391, merges 4476.
bool suits_passes(const Selection& call) {
  const int64_t columns = call.rows.columns;
  if (columns <= 16384) return false;
  return size_of(call.dtype) == 2 || call.rows.rows >= divide_up(int64_t{1} << 20, columns);
}

}  // namespace

std::span<const Rung* const> TopK::by_worth(const Call& call) {
  if (suits_network(call)) return kSelectFromFewByWorth;
  if (suits_passes(call)) return kSelectFromManyByWorth;
  return kSelectByWorth;
}
std::span<const Rung* const> Sort::by_worth(const Call& call) {
  if (suits_network(call)) return kSortFewByWorth;
  if (suits_passes(call)) return kSortManyByWorth;
  return kSortByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "topk",
    .summary = "The best k elements of rows and their places, and rows in order",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::topk
