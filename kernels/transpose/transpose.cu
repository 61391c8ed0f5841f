// The transpose family: its operations, its rungs in teaching order, and which to prefer.
#include "kernels/transpose/04_diagonal_2d.cuh"
#include "kernels/transpose/09_merged_write.cuh"
#include "kernels/transpose/plan.hpp"

namespace ws::transpose {

extern const Rung kSwizzled;
extern const Rung kTma;
extern const Rung kCute;
extern const Rung kAnyLayout;
extern const Rung kRows;
extern const Rung kTiles;
extern const Rung kWideTiles;
extern const Rung kInterleave;
extern const Rung kRealigned;
extern const Rung kGathered;
extern const Rung kWindows;

namespace {

constexpr Operation kOperations[] = {operation_of<Transpose>(), operation_of<Permute>()};

constexpr const Rung* kRungs[] = {
    &kCol2row,       &kRow2col,       &kCol2row2d,     &kRow2col2d,   &kDiagonal2d,
    &kCol2rowX4,     &kRow2colX4,     &kCol2row2dX4,   &kRow2col2dX4, &kSharedCol2row,
    &kSharedRow2col, &kPaddedCol2row, &kPaddedRow2col, &kMergedWrite, &kSwizzled,
    &kTma,           &kCute,          &kAnyLayout,     &kRows,        &kTiles,
    &kWideTiles,     &kInterleave,    &kRealigned,     &kGathered,    &kWindows,
};

constexpr int64_t kSectorBytes = 32;
constexpr int64_t kWindowBytes = 2048;
// Measured on an H200: half a tile of matrices is faster by pieces than by elements, half a tile of
// several dimensions is not.
constexpr double kFullEnough = 0.5;

// Whether the innermost dimensions of y are a small stretch of x: in y's order all of a line that
// comes for one element is used while the L1 has it.
bool stays_in_a_window(const Permutation& call) {
  int64_t elements = 1;
  int64_t reach = 1;
  for (size_t i = call.rank; i-- > 0;) {
    elements *= call.loops[i].extent;
    reach += (call.loops[i].extent - 1) * std::abs(call.loops[i].strides[kX]);
    if (reach * call.element_bytes > kWindowBytes) return false;
    if (reach == elements && reach * call.element_bytes >= kSectorBytes) return true;
  }
  return true;
}

// Measured on an H200: 96 to 99 % of a copy where windows of x follow each other, 76 in windows of
// 64 bytes. Predicted, not measured, where they are elsewhere: what a line has of one is used.
bool has_windows(const Permutation& call) {
  constexpr int kLine = 128;
  const WindowPlan plan = plan_windows(call);
  return plan.count > 0 && (plan.together || plan.pieces * WindowPlan::kPiece >= kLine);
}

// How full tiles are.
double fill_of(const Permutation& call, int64_t tiles, const WideShape& shape) {
  return static_cast<double>(call.elements()) /
         (static_cast<double>(tiles) * shape.rows * shape.columns);
}

// Predicted, not measured: what is half full is faster by pieces here too, where tiles() moves an
// element an access.
bool fills_realigned(const Permutation& call) {
  const RealignedPlan plan = plan_realigned(call);
  const WideShape shape = {RealignedShape::useful_rows(call.element_bytes),
                           RealignedShape::of(call.element_bytes).columns};
  return plan.tiles > 0 && fill_of(call, plan.tiles, shape) >= kFullEnough;
}
bool fills_gathered(const Permutation& call) {
  const GatheredPlan plan = plan_gathered(call);
  const GatheredShape shape = GatheredShape::of(call.element_bytes);
  return plan.tiles > 0 && fill_of(call, plan.tiles, {shape.rows, shape.columns}) >= kFullEnough;
}
// Measured on an H200, 4097 x 16383 and 4097 x 16384: elements of 8 bytes, and of 4 where rows of x
// begin at multiples of 16, are faster gathered than shifted, others 2 to 15 % slower. What stays
// together in threes no other rung moves by pieces.
bool gathers(const Permutation& call) {
  if (!fills_gathered(call)) return false;
  if (call.run() > 1 || call.element_bytes == 8) return true;
  return call.element_bytes == 4 && plan_gathered(call).x_pitch % 4 == 0 &&
         reinterpret_cast<intptr_t>(call.x) % 16 == 0;
}

template <const Rung*... kRungs>
constexpr const Rung* kOrder[] = {kRungs...};

}  // namespace

std::span<const Rung* const> best_for(const Permutation& call) {
  if (call.rank <= 1 || call.run() * call.element_bytes >= kSectorBytes) {
    return kOrder<&kRows, &kTiles, &kAnyLayout>;
  }
  if (has_windows(call)) return kOrder<&kWindows, &kTiles, &kAnyLayout>;
  if (stays_in_a_window(call)) return kOrder<&kAnyLayout>;
  // What takes pieces of any address stands behind those that want whole ones, unless its tiles
  // would be too empty.
  const auto order = [&]<const Rung*... kFirst>() -> std::span<const Rung* const> {
    if (gathers(call)) return kOrder<kFirst..., &kGathered, &kTiles, &kAnyLayout>;
    if (fills_realigned(call)) return kOrder<kFirst..., &kRealigned, &kTiles, &kAnyLayout>;
    return kOrder<kFirst..., &kTiles, &kAnyLayout>;
  };
  const WideShape shape = WideShape::of(call.element_bytes);
  Matrices m;
  if (as_matrices(call, m)) {
    const int64_t tiles =
        m.batch * divide_up(m.rows, shape.rows) * divide_up(m.columns, shape.columns);
    if (fill_of(call, tiles, shape) >= kFullEnough) {
      return order.template operator()<&kSwizzled, &kWideTiles>();
    }
  }
  const TilePlan plan = plan_tiles(call, wide_shape(call.element_bytes));
  const bool is_full = plan.tiles > 0 && fill_of(call, plan.tiles, shape) > kFullEnough;
  return is_full ? order.template operator()<&kWideTiles>()
                 : order.template operator()<&kInterleave>();
}

extern const Family kFamily;
const Family kFamily = {
    .name = "transpose",
    .summary = "Dimensions in another order, written out",
    .operations = kOperations,
    .rungs = kRungs,
};

}  // namespace ws::transpose
