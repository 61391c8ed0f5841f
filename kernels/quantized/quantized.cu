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
extern const Rung kWgmmaCodes;
extern const Rung kQuantizePacked;

namespace {

constexpr Operation kOperations[] = {operation_of<QuantizedLinear>(),
                                     operation_of<QuantizeBlockwise>(),
                                     operation_of<DequantizeBlockwise>()};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kWarpPerRow,     &kTensorCore,      &kCodeRing,
    &kGroupColumns,  &kRowStrips,      &kWgmmaCodes,      &kQuantizeNaive,
    &kQuantizeLanes, &kQuantizePacked, &kDequantizeNaive, &kDequantizeVector,
};

}  // namespace

// One row of x: H200 2026-11-26, all formats and sizes. More of them, of weights above 16 MB of
// codes with 8192 rows or more (H200 2026-11-30): `wgmma_codes` with more than 8 rows of x (0.65 to
// 0.95 of the best other's time; 4096 x 14336: 1.9), and with fewer where an SM has 128 rows of the
// weight, int8 aside (28672 x 8192: 0.8 of `row_strips`', int8 1.07; 8192 x 8192: 1.2); then with
// up to 4 `row_strips` (0.75 to 0.95 of `code_ring`'s). Of smaller weights a ring takes some us to
// fill.
std::span<const Rung* const> QuantizedLinear::by_worth(const Call& call) {
  static constexpr const Rung* kOneRow[] = {&kGroupColumns, &kCodeRing,   &kRowStrips,
                                            &kTensorCore,   &kWarpPerRow, &kNaive};
  // H200 2026-11-28, int8 4096 x 4096: code_ring 11.5 us, group_columns 12.5.
  static constexpr const Rung* kOneShortRow[] = {&kCodeRing,   &kGroupColumns, &kRowStrips,
                                                 &kTensorCore, &kWarpPerRow,   &kNaive};
  static constexpr const Rung* kByWgmma[] = {&kWgmmaCodes, &kRowStrips,  &kCodeRing,
                                             &kTensorCore, &kWarpPerRow, &kNaive};
  static constexpr const Rung* kByStrips[] = {&kRowStrips, &kCodeRing, &kTensorCore, &kWarpPerRow,
                                              &kNaive};
  static constexpr const Rung* kByRing[] = {&kCodeRing, &kTensorCore, &kRowStrips, &kWarpPerRow,
                                            &kNaive};
  static constexpr const Rung* kSmall[] = {&kTensorCore, &kCodeRing, &kRowStrips, &kWarpPerRow,
                                           &kNaive};
  constexpr int64_t kBytes = 16 << 20;
  constexpr int64_t kManyRows = 1 << 14;
  const Weight& w = call.weight;
  const bool is_large = w.rows * w.columns * bits_of(w.format) / 8 > kBytes;
  if (call.m == 1) {
    return bits_of(w.format) == 8 && !is_large ? std::span<const Rung* const>(kOneShortRow)
                                               : kOneRow;
  }
  if (is_large && w.rows >= kManyRows / 2) {
    const bool has_many_rows = w.rows >= kManyRows;
    if (call.m > 8 || (has_many_rows && w.format != Format::kInt8)) return kByWgmma;
    if (call.m <= 4 || has_many_rows) return kByStrips;
  }
  return (is_large && call.m <= 4) || w.format == Format::kNf4 ? std::span(kByRing)
                                                               : std::span(kSmall);
}
std::span<const Rung* const> QuantizeBlockwise::by_worth(const Call& /*call*/) {
  // H200 2026-11-30, 8192 x 8192: f32 0.5 to 0.8, 16 bits 0.4 to 0.5 of quantize_lanes' time.
  static constexpr const Rung* kByWorth[] = {&kQuantizePacked, &kQuantizeLanes, &kQuantizeNaive};
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
