// The spmv family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/spmv/01_scalar.cuh"
#include "kernels/spmv/02_vector.cuh"
#include "kernels/spmv/03_lanes_per_row.cuh"
#include "kernels/spmv/05_element.cuh"

namespace ws::spmv {

// Rungs of units of their own.
extern const Rung kMergePath, kRowSlice;

namespace {

constexpr Operation kOperations[] = {operation_of<SpmvCsr>(), operation_of<SpmmCsr>()};

constexpr const Rung* kRungs[] = {
    &kScalar, &kVector, &kLanesPerRow, &kMergePath, &kElement, &kRowSlice,
};

// Two launches and a search pay where there is a tile for each multiprocessor.
constexpr int64_t kLeastMerged = int64_t{1} << 18;
constexpr const Rung* kLarge[] = {&kMergePath, &kLanesPerRow, &kScalar};
constexpr const Rung* kSmall[] = {&kLanesPerRow, &kScalar};
constexpr const Rung* kProducts[] = {&kRowSlice, &kElement};

}  // namespace

std::span<const Rung* const> SpmvCsr::by_worth(const Call& call) {
  if (call.rows + call.entries >= kLeastMerged) return kLarge;
  return kSmall;
}
std::span<const Rung* const> SpmmCsr::by_worth(const Call& /*call*/) { return kProducts; }

extern const Family kFamily;
const Family kFamily = {
    .name = "spmv",
    .summary = "Sparse matrices times dense vectors and matrices",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::spmv
