// The fused family: its one table of rungs, in teaching order.
#include "kernels/fused/01_naive.cuh"
#include "kernels/fused/02_gate_naive.cuh"
#include "kernels/fused/03_gate_backward_naive.cuh"
#include "kernels/fused/05_vector.cuh"
#include "kernels/fused/07_dropout_naive.cuh"
#include "kernels/fused/08_dropout_four.cuh"
#include "kernels/fused/09_dropout_compact.cuh"
#include "kernels/fused/10_dropout_any_layout.cuh"
#include "kernels/fused/11_norm_naive.cuh"
#include "kernels/fused/12_norm_any_layout.cuh"
#include "kernels/fused/14_qkv_naive.cuh"
#include "kernels/fused/15_qkv_vector.cuh"

namespace ws::fused {

// Rungs of units of their own.
extern const Rung kAnyLayout, kCompactRows, kNormInRegisters, kNormElements;

namespace {

constexpr Operation kOperations[] = {
    operation_of<BiasGelu>(),
    operation_of<BiasGeluBackward>(),
    operation_of<SwiGlu>(),
    operation_of<SwiGluBackward>(),
    operation_of<GeGlu>(),
    operation_of<GeGluBackward>(),
    operation_of<Dropout>(),
    operation_of<BiasResidualLayerNorm>(),
    operation_of<RmsNormQuantized>(),
    operation_of<QkvBiasTranspose>(),
};

constexpr const Rung* kRungs[] = {
    &kNaive,           &kGateNaive,        &kGateBackwardNaive, &kAnyLayout,
    &kVector,          &kCompactRows,      &kDropoutNaive,      &kDropoutFour,
    &kDropoutCompact,  &kDropoutAnyLayout, &kNormNaive,         &kNormAnyLayout,
    &kNormInRegisters, &kNormElements,     &kQkvNaive,          &kQkvVector,
};

}  // namespace

std::span<const Rung* const> rungs_by_worth() {
  static constexpr const Rung* kByWorth[] = {&kCompactRows, &kAnyLayout};
  return kByWorth;
}

std::span<const Rung* const> Dropout::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kDropoutCompact, &kDropoutAnyLayout, &kNormNaive,
                                             &kNormAnyLayout, &kNormInRegisters};
  return kByWorth;
}

template <bool kCentred>
std::span<const Rung* const> FusedNorm<kCentred>::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kNormInRegisters, &kNormElements, &kNormAnyLayout};
  return kByWorth;
}
template std::span<const Rung* const> FusedNorm<true>::by_worth(const Call& call);
template std::span<const Rung* const> FusedNorm<false>::by_worth(const Call& call);

std::span<const Rung* const> QkvBiasTranspose::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kQkvVector, &kQkvNaive};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "fused",
    .summary = "Steps of a transformer that are cheap to compute and dear to move, in one kernel",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::fused
