// The optimizer family: its one table of rungs, in teaching order.
#include "kernels/optimizer/01_naive.cuh"
#include "kernels/optimizer/02_any_layout.cuh"
#include "kernels/optimizer/03_vector.cuh"
#include "kernels/optimizer/04_piece_per_block.cuh"
#include "kernels/optimizer/05_piece_vectors.cuh"

namespace ws::optimizer {
namespace {

constexpr Operation kOperations[] = {operation_of<AdamW>(), operation_of<MultiTensorAdamW>()};

constexpr const Rung* kRungs[] = {
    &kNaive, &kAnyLayout, &kVector, &kPiecePerBlock, &kPieceVectors,
};

}  // namespace

std::span<const Rung* const> AdamW::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kVector, &kAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> MultiTensorAdamW::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kPieceVectors, &kPiecePerBlock};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "optimizer",
    .summary = "AdamW in place, of one tensor and of many in one launch",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::optimizer
