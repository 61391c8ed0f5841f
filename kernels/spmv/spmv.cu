// The spmv family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/spmv/01_scalar.cuh"
#include "kernels/spmv/02_vector.cuh"
#include "kernels/spmv/03_lanes_per_row.cuh"
#include "kernels/spmv/05_element.cuh"
#include "kernels/spmv/07_coo_atomic.cuh"
#include "kernels/spmv/10_ell_thread.cuh"
#include "kernels/spmv/13_bsr_thread.cuh"
#include "kernels/spmv/16_sampled_entry.cuh"

namespace ws::spmv {

// Rungs of units of their own.
extern const Rung kMergePath, kRowSlice;
extern const Rung kCooSegments, kCooSort, kEllColumns, kEllLanes, kBsrWarp, kMergeSlice,
    kSampledLanes, kMergeRuns;

namespace {

constexpr Operation kOperations[] = {
    operation_of<SpmvCsr>(), operation_of<SpmvCoo>(), operation_of<SpmvEll>(),
    operation_of<SpmvBsr>(), operation_of<SpmmCsr>(), operation_of<SddmmCsr>(),
};

constexpr const Rung* kRungs[] = {
    &kScalar,    &kVector,      &kLanesPerRow, &kMergePath,    &kElement,      &kRowSlice,
    &kCooAtomic, &kCooSegments, &kCooSort,     &kEllThread,    &kEllColumns,   &kEllLanes,
    &kBsrThread, &kBsrWarp,     &kMergeSlice,  &kSampledEntry, &kSampledLanes, &kMergeRuns,
};

// Searches pay where there is a tile for each multiprocessor. H200 2026-11-30: merge_runs is ahead
// of merge_path from 2^18 items to 2^24, whatever the rows are.
constexpr int64_t kLeastMerged = int64_t{1} << 18;
constexpr const Rung* kLarge[] = {&kMergeRuns, &kMergePath, &kLanesPerRow, &kScalar};
constexpr const Rung* kSmall[] = {&kLanesPerRow, &kScalar};
constexpr const Rung* kLargeProducts[] = {&kMergeSlice, &kRowSlice, &kElement};
constexpr const Rung* kSmallProducts[] = {&kRowSlice, &kElement};
// The same bits in every run come before speed; a sort for what is not ordered.
constexpr const Rung* kCoordinates[] = {&kCooSegments, &kCooSort, &kCooAtomic};
constexpr const Rung* kSlots[] = {&kEllColumns, &kEllLanes, &kEllThread};
constexpr const Rung* kFewRows[] = {&kEllLanes, &kEllThread};
constexpr const Rung* kBlocks[] = {&kBsrWarp, &kBsrThread};
constexpr const Rung* kSmallBlocks[] = {&kBsrThread, &kBsrWarp};

}  // namespace

std::span<const Rung* const> SpmvCsr::by_worth(const Call& call) {
  if (call.rows + call.entries >= kLeastMerged) return kLarge;
  return kSmall;
}
std::span<const Rung* const> SpmvCoo::by_worth(const Call& /*call*/) { return kCoordinates; }
std::span<const Rung* const> SpmvEll::by_worth(const Call& call) {
  // Of a single row, or a few, rows are next to each other whatever their strides say.
  if (call.rows < kWarpSize) return kFewRows;
  return kSlots;
}
std::span<const Rung* const> SpmvBsr::by_worth(const Call& call) {
  // H200 2026-11-30, us by bsr_thread and bsr_warp: of 4 x 4 f32 57 and 38, f16 50 and 34; of 8 x 8
  // f32 38 and 33, f16, whose rows are 16 bytes, 32 and 35; of 3 x 3, which are no vectors, 52
  // and 70.
  const bool is_small = call.block_rows * call.block_columns <= 64;
  const bool is_line = call.block_columns == 8 && size_of(call.dtype) == 2;
  return is_small && (call.block_columns % 4 != 0 || is_line) ? kSmallBlocks : kBlocks;
}
std::span<const Rung* const> SpmmCsr::by_worth(const Call& call) {
  // How long rows are the host does not know. Of even ones merge_slice was predicted to take no
  // longer than row_slice, of a power law a hundredth: JOURNAL.md.
  if (call.rows + call.entries >= kLeastMerged) return kLargeProducts;
  return kSmallProducts;
}

std::span<const Rung* const> SddmmCsr::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kSampledLanes, &kSampledEntry};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "spmv",
    .summary = "Sparse matrices times dense vectors and matrices",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::spmv
