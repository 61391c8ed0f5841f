// The index_add family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/index_add/01_naive.cuh"
#include "kernels/index_add/02_generic_atomic.cuh"
#include "kernels/index_add/03_small_index.cuh"
#include "kernels/index_add/04_large_index.cuh"
#include "kernels/index_add/05_vector_atomic.cuh"
#include "kernels/index_add/06_sorted.cuh"
#include "kernels/index_add/07_take.cuh"
#include "kernels/index_add/08_take_quick.cuh"
#include "kernels/index_add/09_take_vectors.cuh"
#include "kernels/index_add/10_take_lines.cuh"
#include "kernels/index_add/12_bulk_reduce.cuh"
#include "kernels/index_add/13_take_rows.cuh"
#include "kernels/index_add/14_take_columns.cuh"
#include "kernels/index_add/15_take_strips.cuh"
#include "kernels/index_add/16_add_strips.cuh"
#include "kernels/index_add/17_add_lines.cuh"

namespace ws::index_add {

extern const Rung kOwnColumns;

namespace {

constexpr Operation kOperations[] = {operation_of<IndexAdd>(), operation_of<IndexSelect>(),
                                     operation_of<Gather>(), operation_of<ScatterAdd>()};

constexpr const Rung* kRungs[] = {
    &kNaive,        &kGenericAtomic, &kSmallIndex,       &kLargeIndex,
    &kVectorAtomic, &kPackedAccF16,  &kPackedAccBf16,    &kSorted,
    &kTake,         &kTakeQuick,     &kTakeVectors,      &kTakeLines,
    &kOwnColumns,   &kBulkReduce,    &kBulkReduceAccF16, &kBulkReduceAccBf16,
    &kTakeRows,     &kTakeColumns,   &kTakeStrips,       &kAddStrips,
    &kAddLines,
};

}  // namespace

using Rungs = std::span<const Rung* const>;

// A thread's own columns of sums are for few rows. Sorted, a thread takes what lies in a row: where
// rows are single elements, threads along the source are better off.
Rungs IndexAdd::by_worth(const Call& call) {
  static constexpr const Rung* kFewRows[] = {&kOwnColumns, &kSorted, &kLargeIndex, &kGenericAtomic};
  static constexpr const Rung* kRows[] = {&kSorted, &kLargeIndex, &kGenericAtomic};
  static constexpr const Rung* kElements[] = {&kLargeIndex, &kGenericAtomic};
  static constexpr const Rung* kOfLines[] = {&kAddLines, &kLargeIndex, &kGenericAtomic};
  constexpr int64_t kLeast = 8;
  // Of more rows a block's shared memory is of so few threads that their loads do not suffice; of
  // more than were measured, only where a sort is much beside the source: some 27 us, 64 MB
  // take 22.
  constexpr int64_t kMostRows = 96;
  constexpr int64_t kMeasuredRows = 32;
  constexpr int64_t kMostBytes = int64_t{1} << 26;
  const int64_t bytes = call.nest.count * static_cast<int64_t>(size_of(call.dtype));
  if (call.rows <= (bytes <= kMostBytes ? kMostRows : kMeasuredRows) &&
      call.columns.are_worth_owning(call.rows)) {
    return kFewRows;
  }
  if (AddLines::is_worth(call)) return kOfLines;
  // Rows that do not lie side by side take `sorted` three times as long as single additions, unless
  // these queue at few rows.
  constexpr int64_t kHotRows = 32;
  const bool by_rows = call.lines.inner_strides[embedding::kY] == 1 || call.rows <= kHotRows;
  if (call.has_lines && call.lines.inner >= kLeast && by_rows) return kRows;
  return kElements;
}
// Rows by one list of vectors wherever it takes them: of any length it has a quarter of the nest's
// instructions (H200 2026-11-28, f32: 133 us for 164, of 32 rows 67 for 94). Lines are for what
// lies side by side along the dimension.
Rungs IndexSelect::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kTakeRows, &kTakeVectors, &kTakeQuick, &kTake};
  static constexpr const Rung* kLines[] = {&kTakeLines, &kTakeRows, &kTakeVectors, &kTakeQuick,
                                           &kTake};
  if (TakeLines::is_worth(call)) return kLines;
  return kByWorth;
}
Rungs Gather::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kTakeRows, &kTakeQuick, &kTake};
  static constexpr const Rung* kLines[] = {&kTakeLines, &kTakeRows, &kTakeQuick, &kTake};
  static constexpr const Rung* kColumns[] = {&kTakeColumns, &kTakeRows, &kTakeQuick, &kTake};
  static constexpr const Rung* kStrips[] = {&kTakeRows, &kTakeStrips, &kTakeQuick, &kTake};
  if (TakeLines::is_worth(call)) return kLines;
  // Of more rows than a block can have.
  static constexpr const Rung* kColumnsOrStrips[] = {&kTakeColumns, &kTakeRows, &kTakeStrips,
                                                     &kTakeQuick, &kTake};
  const bool strips = TakeStrips::is_worth(call);
  if (TakeColumns::is_worth(call)) return strips ? Rungs(kColumnsOrStrips) : kColumns;
  if (strips) return kStrips;
  return kByWorth;
}
Rungs ScatterAdd::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kLargeIndex, &kGenericAtomic};
  static constexpr const Rung* kFewRows[] = {&kOwnColumns, &kLargeIndex, &kGenericAtomic};
  static constexpr const Rung* kStrips[] = {&kAddStrips, &kLargeIndex, &kGenericAtomic};
  // Of more rows than a thread can have.
  static constexpr const Rung* kFewRowsOrStrips[] = {&kOwnColumns, &kAddStrips, &kLargeIndex,
                                                     &kGenericAtomic};
  static constexpr const Rung* kOfLines[] = {&kAddLines, &kLargeIndex, &kGenericAtomic};
  const bool strips = AddStrips::is_worth(call);
  if (call.columns.are_worth_owning(call.rows)) return strips ? Rungs(kFewRowsOrStrips) : kFewRows;
  if (strips) return kStrips;
  if (AddLines::is_worth(call)) return kOfLines;
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "index_add",
    .summary = "what indices along a dimension take from a tensor, and what they add to one",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::index_add
