// How a permutation is cut into tiles.
#include "kernels/transpose/plan.hpp"

#include <algorithm>
#include <cstdlib>

#include "catalogue/row_layout.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::transpose {
namespace {

constexpr int64_t kSectorBytes = 32;

class Planner {
 public:
  Planner(const Permutation& call, const TileShape& shape) : call_(call), shape_(shape) {
    plan_.run = call.run();
    rank_ = plan_.run > 1 ? size_t{call.rank} - 1 : call.rank;
  }

  TilePlan plan() {
    if (call_.elements() == 0) return plan_;
    const size_t first_column = fastest(kX);
    const size_t first_row = fastest(kY);
    if (first_column == rank_ || first_column == first_row) return plan_;
    taken_[first_column] = taken_[first_row] = true;
    draft(plan_.columns, kX, first_column, shape_.columns);
    draft(plan_.rows, kY, first_row,
          std::min(shape_.longest_rows, shape_.places / plan_.columns.length));
    const int64_t room = std::min(shape_.longest_columns, shape_.places / plan_.rows.length);
    if (plan_.columns.length < room) {  // few rows: columns may be more
      for (size_t i = 1; i < plan_.columns.loops; ++i) taken_[at_[kX][i]] = false;
      draft(plan_.columns, kX, first_column, room);
    }
    walk_over_tiles();
    return plan_;
  }

 private:
  // The loop of the least stride that no side has; rank_ where there is none.
  size_t fastest(Operand operand) const {
    size_t found = rank_;
    for (size_t i = rank_; i-- > 0;) {
      const int64_t stride = std::abs(call_.loops[i].strides[operand]);
      if (taken_[i] || stride == 0) continue;
      if (found == rank_ || stride < std::abs(call_.loops[found].strides[operand])) found = i;
    }
    return found;
  }

  // A side of about `target` elements. It goes on where its elements lie side by side, or where
  // they do for whole sectors.
  void draft(SidePlan& side, Operand operand, size_t first, int64_t target) {
    side = {};
    int64_t side_by_side = plan_.run;
    size_t next = first;
    while (true) {
      const Loop& loop = call_.loops[next];
      taken_[next] = true;
      at_[operand][side.loops] = next;
      if (std::abs(loop.strides[operand]) == side_by_side) side_by_side *= loop.extent;
      add(side, loop, target / side.length, side.loops == 0 ? shape_.piece : 1);
      const bool is_cut = side.steps > 0;
      if (is_cut || side.loops == SidePlan::kMostLoops || side.length * 2 > target) return;
      next = fastest(operand);
      if (next == rank_) return;
      const bool goes_on = std::abs(call_.loops[next].strides[operand]) == side_by_side;
      if (!goes_on && side_by_side * call_.element_bytes < kSectorBytes) return;
    }
  }

  // Up to `most` steps of a loop, in parts that are about equal.
  static void add(SidePlan& side, Loop loop, int64_t most, int64_t piece) {
    if (loop.extent > most) {
      side.steps = loop.extent;
      const int64_t parts = divide_up(loop.extent, most);
      loop.extent = round_up(divide_up(loop.extent, parts), piece);
    }
    side.loop[side.loops++] = loop;
    side.length *= loop.extent;
  }

  // Tiles in y's order: what neighbours write lies side by side.
  void walk_over_tiles() {
    struct Step {
      Loop loop;
      SidePlan* side;
    };
    std::array<Step, kMaxRank> steps{};
    size_t count = 0;
    for (SidePlan* side : {&plan_.columns, &plan_.rows}) {
      if (side->steps == 0) continue;
      const Loop& part = side->last();
      steps[count++] = {{divide_up(side->steps, part.extent),
                         {part.strides[kX] * part.extent, part.strides[kY] * part.extent}},
                        side};
    }
    for (size_t i = rank_; i-- > 0;) {
      if (!taken_[i]) steps[count++] = {call_.loops[i], nullptr};
    }
    std::stable_sort(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(count),
                     [](const Step& a, const Step& b) {
                       return std::abs(a.loop.strides[kY]) < std::abs(b.loop.strides[kY]);
                     });
    plan_.tiles = 1;
    for (size_t i = 0; i < count; ++i) {
      if (steps[i].side != nullptr) steps[i].side->cut = static_cast<int>(i);
      plan_.loop[plan_.loops++] = steps[i].loop;
      plan_.tiles *= steps[i].loop.extent;
    }
  }

  const Permutation& call_;
  const TileShape& shape_;
  TilePlan plan_;
  size_t rank_ = 0;  // of the loops that are walked, without that of runs
  std::array<bool, kMaxRank> taken_{};
  std::array<std::array<size_t, SidePlan::kMostLoops>, 2> at_{};  // of each side
};

}  // namespace

TileShape wide_shape(int element_bytes) {
  const WideShape shape = WideShape::of(element_bytes);
  return {.columns = shape.columns,
          .longest_columns = shape.columns,
          .longest_rows = shape.rows,
          .places = int64_t{shape.columns} * shape.rows,
          .piece = 16 / element_bytes};
}

TileShape narrow_shape(const Permutation& call) {
  const auto places_of = [&](int64_t elements) {
    return std::max<int64_t>(elements / std::max<int64_t>(call.run(), 1), 1);
  };
  const int64_t lines = std::max<int64_t>(64, 128 / call.element_bytes);  // of 128 bytes or more
  return {.columns = places_of(lines),
          .longest_columns = places_of(kLongestSide),
          .longest_rows = places_of(kLongestSide),
          .places = places_of(kNarrowBytes / call.element_bytes)};
}

TilePlan plan_tiles(const Permutation& call, const TileShape& shape) {
  return Planner(call, shape).plan();
}

RealignedPlan plan_realigned(const Permutation& call) {
  RealignedPlan plan;
  if (call.elements() == 0 || call.rank < 2 || call.inner().strides[kY] != 1) return plan;
  const WideShape shape = RealignedShape::of(call.element_bytes);
  const int64_t width = 16 / call.element_bytes;
  const Loop& rows = call.inner();
  plan.rows = rows.extent;
  plan.x_pitch = rows.strides[kX];
  // Of a row of y that begins at the last element of a piece.
  const int64_t pieces = (rows.extent + width - 2) / width + 1;
  const int64_t useful = RealignedShape::useful_rows(call.element_bytes);
  plan.loop[plan.loops++] = {divide_up(pieces, int64_t{RealignedShape::kUsefulPieces}),
                             {useful * plan.x_pitch, useful}};
  for (size_t i = call.rank - size_t{1}; i-- > 0;) {  // in y's order, the fastest first
    Loop loop = call.loops[i];
    if (plan.columns == 0 && loop.strides[kX] == 1) {
      plan.columns = loop.extent;
      plan.y_pitch = loop.strides[kY];
      plan.column_loop = static_cast<int>(plan.loops);
      loop = {divide_up(loop.extent, int64_t{shape.columns}),
              {shape.columns, shape.columns * plan.y_pitch}};
    }
    plan.loop[plan.loops++] = loop;
  }
  if (plan.columns == 0) return {};
  plan.tiles = 1;
  for (size_t i = 0; i < plan.loops; ++i) plan.tiles *= plan.loop[i].extent;
  return plan;
}

GatheredPlan plan_gathered(const Permutation& call) {
  GatheredPlan plan;
  plan.run = call.run();
  const size_t rank = plan.run > 1 ? size_t{call.rank} - 1 : call.rank;
  if (call.elements() == 0 || rank < 2 || plan.run > kMostRun) return {};
  const Loop& rows = call.loops[rank - 1];
  if (rows.strides[kY] != plan.run) return {};
  const GatheredShape shape = GatheredShape::of(call.element_bytes);
  const int64_t halo = GatheredShape::kCut / call.element_bytes - 1;
  const int64_t columns = shape.columns / plan.run;
  plan.rows = rows.extent;
  plan.x_pitch = rows.strides[kX];
  plan.loop[plan.loops++] = {divide_up(rows.extent * plan.run + halo, shape.rows * plan.run),
                             {shape.rows * plan.x_pitch, shape.rows * plan.run}};
  for (size_t i = rank - 1; i-- > 0;) {  // in y's order, the fastest first
    Loop loop = call.loops[i];
    if (plan.columns == 0 && loop.strides[kX] == plan.run) {
      plan.columns = loop.extent;
      plan.y_pitch = loop.strides[kY];
      plan.column_loop = static_cast<int>(plan.loops);
      loop = {divide_up(loop.extent, columns), {columns * plan.run, columns * plan.y_pitch}};
    }
    plan.loop[plan.loops++] = loop;
  }
  if (plan.columns == 0) return {};
  plan.tiles = 1;
  for (size_t i = 0; i < plan.loops; ++i) plan.tiles *= plan.loop[i].extent;
  return plan;
}

WindowPlan plan_windows(const Permutation& call) {
  constexpr int64_t kPiece = WindowPlan::kPiece;
  constexpr int64_t kMostBytes = kPiece * WindowPlan::kMostPieces;
  if (reinterpret_cast<intptr_t>(call.x) % kPiece != 0 ||
      reinterpret_cast<intptr_t>(call.y) % kPiece != 0) {
    return {};
  }
  WindowPlan plan;
  int64_t elements = 1;  // of the loops so far
  int64_t reach = 1;     // of theirs in x
  int64_t of_window = 0;
  bool goes_on = true;  // every loop along x
  for (int n = 1; n <= call.rank; ++n) {
    const Loop& loop = call.loops[static_cast<size_t>(call.rank - n)];
    if (loop.strides[kY] != elements) return {};
    elements *= loop.extent;
    reach += (loop.extent - 1) * loop.strides[kX];
    goes_on = goes_on && loop.strides[kX] > 0;
    const bool fits = goes_on && reach == elements && elements * call.element_bytes <= kMostBytes;
    if (fits && elements * call.element_bytes % kPiece == 0) {
      plan.loops = n;
      of_window = elements;
    }
  }
  if (plan.loops == 0 || elements == 0) return {};
  plan.together = true;
  for (int n = plan.loops + 1; n <= call.rank; ++n) {
    const Loop& loop = call.loops[static_cast<size_t>(call.rank - n)];
    if (loop.strides[kX] * call.element_bytes % kPiece != 0) return {};
    plan.together = plan.together && loop.strides[kX] == loop.strides[kY];
  }
  plan.pieces = static_cast<int>(of_window * call.element_bytes / kPiece);
  plan.count = elements / of_window;
  return plan;
}

bool takes_whole_pieces(const Permutation& call, int64_t tiles, Why& why) {
  return why.unless(tiles <= kMostBlocks, "takes up to ", kMostBlocks, " tiles, not ", tiles) &&
         why.unless(call.x == nullptr || lie_apart(call),
                    "reads what lies between rows of x, where y has elements");
}

}  // namespace ws::transpose
