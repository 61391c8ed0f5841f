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
extern const Rung kQuantizePacked;

namespace {

constexpr Operation kOperations[] = {operation_of<QuantizedLinear>(),
                                     operation_of<QuantizeBlockwise>(),
                                     operation_of<DequantizeBlockwise>()};

constexpr const Rung* kRungs[] = {
    &kNaive,         &kWarpPerRow,     &kTensorCore,      &kCodeRing,
    &kGroupColumns,  &kRowStrips,      &kQuantizeNaive,
    &kQuantizeLanes, &kQuantizePacked, &kDequantizeNaive, &kDequantizeVector,
};

}  // namespace

// One row of x: H200 2026-11-26, all formats and sizes. More of them: `row_strips` where an SM has
// four strips or more to share a chunk of x (H200 2026-11-28, seven strips: with 8 rows 0.6 to 0.8
// of `code_ring`'s time and of `tensor_core`'s, with 16 0.5 to 0.9 of the latter's, and with one
// row no more than `code_ring`'s); with fewer, a ring takes some us to fill, and x of many rows its
// room (H200 2026-11-24: 10 and 9 us for 8 MB of codes, 76 and 69 for 8 rows of x).
std::span<const Rung* const> QuantizedLinear::by_worth(const Call& call) {
  static constexpr const Rung* kOneRow[] = {&kGroupColumns, &kCodeRing,   &kRowStrips,
                                            &kTensorCore,   &kWarpPerRow, &kNaive};
  // H200 2026-11-28, int8 4096 x 4096: code_ring 11.5 us, group_columns 12.5.
  static constexpr const Rung* kOneShortRow[] = {&kCodeRing,   &kGroupColumns, &kRowStrips,
                                                 &kTensorCore, &kWarpPerRow,   &kNaive};
  static constexpr const Rung* kManyStrips[] = {&kRowStrips, &kCodeRing, &kTensorCore, &kWarpPerRow,
                                                &kNaive};
  static constexpr const Rung* kLarge[] = {&kCodeRing, &kTensorCore, &kRowStrips, &kWarpPerRow,
                                           &kNaive};
  static constexpr const Rung* kSmall[] = {&kTensorCore, &kCodeRing, &kRowStrips, &kWarpPerRow,
                                           &kNaive};
  constexpr int64_t kBytes = 16 << 20;
  constexpr int64_t kRows = 1 << 14;
  const Weight& w = call.weight;
  const bool is_large = w.rows * w.columns * bits_of(w.format) / 8 > kBytes;
  if (call.m == 1) {
    return bits_of(w.format) == 8 && !is_large ? std::span<const Rung* const>(kOneShortRow)
                                               : kOneRow;
  }
  if (is_large && w.rows >= kRows) return kManyStrips;
  return (is_large && call.m <= 4) || w.format == Format::kNf4 ? std::span(kLarge)
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
