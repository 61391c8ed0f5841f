// The table of the elementwise family.
#include "kernels/elementwise/01_scalar.cuh"
#include "kernels/elementwise/02_vector.cuh"
#include "kernels/elementwise/03_compact_front.cuh"
#include "kernels/elementwise/operations.hpp"

namespace ws::elementwise {

extern const Rung kStrided;  // of units of their own
extern const Rung kStridedVectors;

namespace {

constexpr auto kOperations = Operations::rows();

constexpr const Rung* kRungs[] = {
    &kScalar, &kVectorX2,     &kVectorX4, &kVectorX8,
    &kPack,   &kCompactFront, &kStrided,  &kStridedVectors,
};

}  // namespace

std::span<const Rung* const> rungs_by_worth() {
  static constexpr const Rung* kByWorth[] = {&kCompactFront, &kStridedVectors, &kStrided};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "elementwise",
    .summary = "One result from one element of each input: the memory's speed is the limit",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::elementwise
