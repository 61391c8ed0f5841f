// The nms family: its operation, its rungs in teaching order, and which to prefer.
#include "kernels/nms/01_greedy.cuh"
#include "kernels/nms/02_pair_mask.cuh"
#include "kernels/nms/03_tile_sweep.cuh"
#include "kernels/nms/04_product.cuh"
#include "kernels/nms/05_sorted_runs.cuh"
#include "kernels/nms/06_soft_greedy.cuh"
#include "kernels/nms/07_soft_resident.cuh"
#include "kernels/nms/08_relay.cuh"
#include "kernels/nms/09_remainder.cuh"

namespace ws::nms {
namespace {

constexpr Operation kOperations[] = {operation_of<NmsIndices>(), operation_of<SoftNms>()};

constexpr const Rung* kRungs[] = {
    &kGreedy,     &kPairMask,     &kTileSweep, &kProduct,   &kSortedRuns,
    &kSoftGreedy, &kSoftResident, &kRelay,     &kRemainder,
};

}  // namespace

// H200: of 1000 boxes `product` takes 38 us and `remainder` 43, of 8192 331 and 106.
std::span<const Rung* const> NmsIndices::by_worth(const Call& call) {
  static constexpr int64_t kFew = 1024;
  static constexpr const Rung* kOfFew[] = {&kProduct, &kRemainder, &kGreedy};
  static constexpr const Rung* kOfMany[] = {&kRemainder, &kGreedy};
  if (call.count <= kFew) return kOfFew;
  return kOfMany;
}

std::span<const Rung* const> SoftNms::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kSoftResident, &kSoftGreedy};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "nms",
    .summary = "Of boxes that overlap, those with the best scores",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::nms
