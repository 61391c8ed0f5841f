// The quantized family: its one table of rungs, in teaching order.
#include "kernels/quantized/01_naive.cuh"
#include "kernels/quantized/04_quantize_naive.cuh"
#include "kernels/quantized/05_quantize_lanes.cuh"
#include "kernels/quantized/06_dequantize_naive.cuh"
#include "kernels/quantized/07_dequantize_vector.cuh"

namespace ws::quantized {

extern const Rung kWarpPerRow;
extern const Rung kTensorCore;
extern const Rung kCodeRing;

namespace {

constexpr Operation kOperations[] = {operation_of<QuantizedLinear>(),
                                     operation_of<QuantizeBlockwise>(),
                                     operation_of<DequantizeBlockwise>()};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kWarpPerRow,    &kTensorCore,      &kCodeRing,
    &kQuantizeNaive, &kQuantizeLanes, &kDequantizeNaive, &kDequantizeVector,
};

}  // namespace

std::span<const Rung* const> QuantizedLinear::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kCodeRing, &kTensorCore, &kWarpPerRow, &kNaive};
  return kByWorth;
}
std::span<const Rung* const> QuantizeBlockwise::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kQuantizeLanes, &kQuantizeNaive};
  return kByWorth;
}
std::span<const Rung* const> DequantizeBlockwise::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kDequantizeVector, &kDequantizeNaive};
  return kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "quantized",
    .summary = "weights of 8 and 4 bits: made, undone, and multiplied with few rows",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::quantized
