// The embedding family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/embedding/01_naive.cuh"
#include "kernels/embedding/02_vector.cuh"
#include "kernels/embedding/03_compact_front.cuh"
#include "kernels/embedding/04_any_layout.cuh"
#include "kernels/embedding/05_backward_naive.cuh"
#include "kernels/embedding/06_backward_atomic.cuh"
#include "kernels/embedding/07_backward_any_layout.cuh"
#include "kernels/embedding/08_backward_sorted.cuh"
#include "kernels/embedding/09_bag_naive.cuh"
#include "kernels/embedding/10_bag_vector.cuh"
#include "kernels/embedding/11_bag_any_layout.cuh"
#include "kernels/embedding/12_bag_ahead.cuh"

namespace ws::embedding {

namespace {

constexpr Operation kOperations[] = {operation_of<Embedding>(), operation_of<EmbeddingBackward>(),
                                     operation_of<EmbeddingBag>()};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kVector,         &kCompactFront,      &kAnyLayout,
    &kBackwardNaive, &kBackwardAtomic, &kBackwardAnyLayout, &kBackwardSorted,
    &kBagNaive,      &kBagVector,      &kBagAnyLayout,      &kBagAhead,
};

}  // namespace

std::span<const Rung* const> Embedding::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kCompactFront, &kAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> EmbeddingBackward::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kBackwardSorted, &kBackwardAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> EmbeddingBag::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kBagAhead, &kBagAnyLayout};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "embedding",
    .summary = "rows of a table by their numbers, alone or in bags, and the table's gradient",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::embedding
