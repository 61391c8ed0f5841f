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
extern const Rung kGroupColumns;
extern const Rung kRowStrips;

namespace {

constexpr Operation kOperations[] = {operation_of<QuantizedLinear>(),
                                     operation_of<QuantizeBlockwise>(),
                                     operation_of<DequantizeBlockwise>()};

constexpr const Rung* kRungs[] = {
    &kNaive,     &kWarpPerRow,    &kTensorCore,    &kCodeRing,        &kGroupColumns,
    &kRowStrips, &kQuantizeNaive, &kQuantizeLanes, &kDequantizeNaive, &kDequantizeVector,
};

}  // namespace

// One row of x: H200 2026-11-26, all formats and sizes. More of them and a large weight: predicted,
// as `row_strips` reads x once for all rows of a block. A small one: a ring takes some us to fill,
// and x of many rows its room (H200 2026-11-24: 10 and 9 us for 8 MB of codes).
std::span<const Rung* const> QuantizedLinear::by_worth(const Call& call) {
  static constexpr const Rung* kOneRow[] = {&kGroupColumns, &kCodeRing,   &kRowStrips,
                                            &kTensorCore,   &kWarpPerRow, &kNaive};
  static constexpr const Rung* kLarge[] = {&kRowStrips, &kCodeRing, &kTensorCore, &kWarpPerRow,
                                           &kNaive};
  static constexpr const Rung* kSmall[] = {&kTensorCore, &kCodeRing, &kRowStrips, &kWarpPerRow,
                                           &kNaive};
  static constexpr const Rung* kSmallNf4[] = {&kCodeRing, &kRowStrips, &kTensorCore, &kWarpPerRow,
                                              &kNaive};
  constexpr int64_t kBytes = 16 << 20;
  const Weight& w = call.weight;
  if (call.m == 1) return kOneRow;
  if (w.rows * w.columns * bits_of(w.format) / 8 > kBytes) return kLarge;
  return w.format == Format::kNf4 ? std::span<const Rung* const>(kSmallNf4) : kSmall;
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
