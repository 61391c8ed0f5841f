// The upsample family: its one table of rungs, in teaching order.
#include "kernels/upsample/01_naive.cuh"
#include "kernels/upsample/02_twice.cuh"
#include "kernels/upsample/03_row_vectors.cuh"
#include "kernels/upsample/04_backward_naive.cuh"
#include "kernels/upsample/05_backward_twice.cuh"
#include "kernels/upsample/06_any_layout.cuh"
#include "kernels/upsample/07_channels.cuh"
#include "kernels/upsample/08_backward_bands.cuh"
#include "kernels/upsample/09_bilinear_naive.cuh"
#include "kernels/upsample/10_bilinear_rows.cuh"
#include "kernels/upsample/11_bilinear_backward_bands.cuh"
#include "kernels/upsample/12_bilinear_channels.cuh"
#include "kernels/upsample/13_bilinear_twice.cuh"
#include "kernels/upsample/14_bilinear_backward_twice.cuh"
#include "kernels/upsample/15_bilinear_bands.cuh"
#include "kernels/upsample/16_bilinear_backward_fours.cuh"
#include "kernels/upsample/17_bilinear_ahead.cuh"
#include "kernels/upsample/18_backward_ahead.cuh"

namespace ws::upsample {

extern const Rung kBilinearBackwardProducts;

namespace {

constexpr Operation kOperations[] = {
    operation_of<UpsampleNearest2d>(), operation_of<UpsampleNearest2dBackward>(),
    operation_of<UpsampleBilinear2d>(), operation_of<UpsampleBilinear2dBackward>()};

constexpr const Rung* kRungs[] = {
    &kNaive,
    &kTwice,
    &kRowVectors,
    &kBackwardNaive,
    &kBackwardTwice,
    &kAnyLayout,
    &kChannels,
    &kBackwardBands,
    &kBilinearNaive,
    &kBilinearRows,
    &kBilinearBackwardBands,
    &kBilinearChannels,
    &kBilinearTwice,
    &kBilinearBackwardTwice,
    &kBilinearBands,
    &kBilinearBackwardFours,
    &kBilinearAhead,
    &kBackwardAhead,
    &kBilinearBackwardProducts,
};

// Whether a call is as those that were measured to be quicker ahead: of 16 bits, no smaller than
// what it is made from, and large enough for blocks that take several planes at once (predicted).
// H200 2026-11-28, gradient of 400 to 256 in f16 62 us by `backward_ahead`, 82 by `backward_bands`,
// in f32 141 and 127.
bool is_worth_ahead(const Call& call) {
  constexpr int64_t kLeast = int64_t{1} << 22;  // elements of the larger images
  return size_of(call.dtype) == 2 && call.rows.to >= call.rows.from &&
         call.columns.to >= call.columns.from &&
         call.planes() * call.rows.to * call.columns.to >= kLeast;
}

}  // namespace

std::span<const Rung* const> UpsampleNearest2d::by_worth(const Call& /*call*/) {
  static constexpr const Rung* kByWorth[] = {&kTwice, &kChannels, &kRowVectors, &kNaive,
                                             &kAnyLayout};
  return kByWorth;
}
std::span<const Rung* const> UpsampleNearest2dBackward::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kBackwardTwice, &kChannels, &kBackwardBands,
                                             &kBackwardNaive, &kAnyLayout};
  static constexpr const Rung* kLarge[] = {&kBackwardTwice, &kChannels,      &kBackwardAhead,
                                           &kBackwardBands, &kBackwardNaive, &kAnyLayout};
  return is_worth_ahead(call) ? std::span<const Rung* const>(kLarge) : kByWorth;
}
// H200 2026-11-26; shrinking by counting.
std::span<const Rung* const> UpsampleBilinear2d::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kBilinearTwice, &kBilinearChannels, &kBilinearBands,
                                             &kBilinearRows, &kBilinearNaive};
  static constexpr const Rung* kLarge[] = {&kBilinearTwice, &kBilinearChannels, &kBilinearAhead,
                                           &kBilinearBands, &kBilinearRows,     &kBilinearNaive};
  // Bands mix all columns of x, rows those that a smaller result wants.
  static constexpr const Rung* kShrinking[] = {&kBilinearChannels, &kBilinearRows, &kBilinearBands,
                                               &kBilinearNaive};
  if (call.columns.to < call.columns.from) return kShrinking;
  // H200 2026-11-28, f16: 256 to 400 in 68 us and by bands 71, to 512 in 100 and 94.
  const auto grows_little = [](const Axis& axis) { return axis.to * 4 <= axis.from * 7; };
  const bool is_ahead = grows_little(call.rows) && grows_little(call.columns);
  return is_ahead && is_worth_ahead(call) ? std::span<const Rung* const>(kLarge) : kByWorth;
}
std::span<const Rung* const> UpsampleBilinear2dBackward::by_worth(const Call& call) {
  static constexpr const Rung* kByWorth[] = {&kBilinearBackwardTwice, &kBilinearChannels,
                                             &kBilinearBackwardFours, &kBilinearBackwardBands,
                                             &kBilinearNaive};
  static constexpr const Rung* kShrinking[] = {&kBilinearChannels, &kBilinearBackwardBands,
                                               &kBilinearBackwardFours, &kBilinearNaive};
  static constexpr const Rung* kLarge[] = {&kBilinearBackwardTwice,    &kBilinearChannels,
                                           &kBilinearBackwardProducts, &kBilinearBackwardFours,
                                           &kBilinearBackwardBands,    &kBilinearNaive};
  const bool shrinks = call.columns.to < call.columns.from || call.rows.to < call.rows.from;
  if (shrinks) return kShrinking;
  // H200 2026-11-30, f16: 400 to 256 in 77 us and by fours 102, 288 to 256 in 73 and 76, 256 to 256
  // in 72 and 61: products take as long for a pixel of dx whatever it is made of.
  const auto grew = [](const Axis& axis) { return axis.to * 8 >= axis.from * 9; };
  const bool has_products = grew(call.rows) && grew(call.columns) && is_worth_ahead(call);
  return has_products ? std::span<const Rung* const>(kLarge) : kByWorth;
}

extern const Family kFamily;
const Family kFamily = {
    .name = "upsample",
    .summary = "images of another size by their nearest pixels or between them, and gradients",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::upsample
