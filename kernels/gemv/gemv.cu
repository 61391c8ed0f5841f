// The table of the GEMV family: its rungs in teaching order, and which to prefer.
#include "kernels/gemv/01_naive.cuh"
#include "kernels/gemv/02_warp_per_row.cuh"
#include "kernels/gemv/03_half_warp_per_row.cuh"
#include "kernels/gemv/04_warp_vectors.cuh"
#include "kernels/gemv/05_tensor_core.cuh"
#include "kernels/gemv/06_several_rows.cuh"
#include "kernels/gemv/07_short_rows.cuh"
#include "kernels/gemv/08_split_rows.cuh"
#include "kernels/gemv/09_shifted_rows.cuh"
#include "kernels/gemv/10_thread_per_column.cuh"
#include "kernels/gemv/11_column_vectors.cuh"
#include "kernels/gemv/12_split_columns.cuh"
#include "kernels/gemv/13_shifted_columns.cuh"
#include "kernels/gemv/14_any_layout.cuh"

namespace ws::gemv {
namespace {

constexpr Operation kOperations[] = {operation_of<Gemv>()};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kWarpPerRow,   &kHalfWarpPerRow, &kWarpVectors, &kTensorCore,
    &kSeveralRows,   &kShortRows,    &kSplitRows,      &kShiftedRows, &kThreadPerColumn,
    &kColumnVectors, &kSplitColumns, &kShiftedColumns, &kAnyLayout,
};

}  // namespace

// From how many rows on warps are enough without sharing K (several_rows, short_rows), and from how
// many columns on threads are (column_vectors): by count.
std::span<const Rung* const> Gemv::by_worth(const Call& call) {
  constexpr int64_t kManyRowsOfSm = 16;
  constexpr int64_t kManyBytesOfSm = 512 * 16;  // of a row of A^T
  static constexpr const Rung* kWide[] = {&kShortRows,   &kSeveralRows,    &kColumnVectors,
                                          &kShiftedRows, &kShiftedColumns, &kAnyLayout};
  static constexpr const Rung* kMany[] = {&kShortRows,   &kSeveralRows,    &kSplitColumns,
                                          &kShiftedRows, &kShiftedColumns, &kAnyLayout};
  static constexpr const Rung* kFew[] = {&kSplitRows, &kSplitColumns, &kShiftedColumns,
                                         &kAnyLayout};
  const int64_t multiprocessors = device_facts().multiprocessors;
  const int64_t bytes = call.m * static_cast<int64_t>(size_of(call.dtype));
  if (bytes >= kManyBytesOfSm * multiprocessors) return kWide;
  return call.m >= kManyRowsOfSm * multiprocessors ? std::span<const Rung* const>(kMany) : kFew;
}

extern const Family kFamily;
constinit const Family kFamily{
    .name = "gemv",
    .summary = "matrix times vector, y = op(A) x",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::gemv
