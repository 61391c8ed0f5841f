// Rotary position embedding on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>

#include "catalogue/fill.hpp"
#include "kernels/rope/operations.hpp"

namespace ws::rope {
namespace {

bool has(int64_t all, Has what) { return (all & what) != 0; }

// ---- The formula --------------------------------------------------------------------------------

// Where an element of a tensor [.., S, H, D] or [.., H, S, D] is.
struct Place {
  int64_t batch, position, head, column;
};
Place place_of(const Tensor& x, bool heads_first, int64_t index) {
  const auto extent = [&](int from_end) {
    return x.rank >= from_end ? x.extent(x.rank - from_end) : 1;
  };
  Place place{};
  place.column = index % extent(1);
  index /= extent(1);
  int64_t& inner = heads_first ? place.position : place.head;
  int64_t& outer = heads_first ? place.head : place.position;
  inner = index % extent(2);
  index /= extent(2);
  outer = index % extent(3);
  place.batch = index / extent(3);
  return place;
}
// The row-major index of a table's element; what the table has 1 of is repeated.
int64_t table_index(const Tensor& table, bool heads_first, Place place) {
  const auto extent = [&](int from_end) {
    return table.rank >= from_end ? table.extent(table.rank - from_end) : 1;
  };
  const bool rows_last = heads_first || table.rank == 2;
  const int64_t rows = extent(rows_last ? 2 : 3);
  const int64_t heads = extent(rows_last ? 3 : 2);
  const int64_t batch = extent(4) == 1 ? 0 : place.batch;
  const int64_t head = heads == 1 ? 0 : place.head;
  const int64_t row = rows_last ? (batch * heads + head) * rows + place.position
                                : (batch * rows + place.position) * heads + head;
  return row * extent(1) + place.column;
}

class Formula {
 public:
  Formula(const Problem& problem, const Tensor& x)
      : x_(x),
        cos_(problem["cos"]),
        sin_(problem["sin"]),
        positions_(problem["positions"]),
        heads_first_(problem.flag("heads_first")),
        interleaved_(problem.flag("interleaved")),
        sign_(problem.flag("inverse") ? -1 : 1),
        base_(problem.number("base")) {
    const int64_t columns = x.extent(x.rank - 1);
    const Value& wanted = problem.attribute("rotary_dim");
    if (cos_.exists()) {
      pairs_ = cos_.extent(cos_.rank - 1);
    } else {
      pairs_ = (wanted.is_absent() ? columns : wanted.as_int()) / 2;
    }
  }

  double operator()(int64_t index) const {
    Place place = place_of(x_, heads_first_, index);
    const int64_t column = place.column;
    const double here = element(x_, index);
    if (column >= 2 * pairs_) return here;
    const int64_t pair = interleaved_ ? column / 2 : column % pairs_;
    const bool is_first = interleaved_ ? column % 2 == 0 : column < pairs_;
    const int64_t apart = interleaved_ ? 1 : pairs_;
    const double other = element(x_, is_first ? index + apart : index - apart);
    place.position = position_of(place);
    place.column = pair;
    const auto [cos, sin] = turn(place);
    return here * cos + (is_first ? -1 : 1) * sign_ * other * sin;
  }

 private:
  int64_t position_of(const Place& place) const {
    if (!positions_.exists()) return place.position;
    const int64_t count = positions_.extent(positions_.rank - 1);
    const bool of_batch = positions_.rank == 2 && positions_.extent(0) > 1;
    const int64_t at = (of_batch ? place.batch * count : 0) + place.position;
    return static_cast<int64_t>(element(positions_, at));
  }
  std::pair<double, double> turn(const Place& place) const {
    if (!cos_.exists()) {
      const double angle =
          static_cast<double>(place.position) *
          std::pow(base_, -static_cast<double>(place.column) / static_cast<double>(pairs_));
      return {std::cos(angle), std::sin(angle)};
    }
    const int64_t at = table_index(cos_, heads_first_, place);
    return {element(cos_, at), element(sin_, at)};
  }

  const Tensor& x_;
  const Tensor& cos_;
  const Tensor& sin_;
  const Tensor& positions_;
  bool heads_first_;
  bool interleaved_;
  int sign_;
  double base_;
  int64_t pairs_;
};

// ---- Cases --------------------------------------------------------------------------------------

// Rows of tables that positions name, and the positions without tables: where an angle in f32 would
// have no right digit behind the point.
constexpr int64_t kMoreRows = 5;
constexpr int64_t kFarthest = 1 << 20;

// The extents of both operations, of which rope has no keys.
struct Extents {
  int64_t batch, positions, heads, columns, pairs, with;
};
Extents extents_of(const Case& chosen, bool has_keys) {
  const auto& e = chosen.extents;
  const size_t next = has_keys ? 4 : 3;
  return {e[0], e[1], e[2], e[next], e[next + 1], e[next + 2]};
}

Tensor heads_tensor(const Extents& e, int64_t heads, DType dtype, int64_t padding,
                    bool heads_first) {
  const int64_t step = has(e.with, kSteps) ? 2 : 1;
  const int64_t pitch = e.columns * step + padding;
  const int64_t outer = heads_first ? heads : e.positions;
  const int64_t inner = heads_first ? e.positions : heads;
  if (has(e.with, kNoBatch)) {
    Tensor x = Tensor::dense(dtype, {outer, inner, e.columns});
    x.strides = {inner * pitch, pitch, step};
    if (has(e.with, kSwapped)) x.strides = {pitch, outer * pitch, step};
    return x;
  }
  Tensor x = Tensor::dense(dtype, {e.batch, outer, inner, e.columns});
  x.strides = {outer * inner * pitch, inner * pitch, pitch, step};
  if (has(e.with, kSwapped)) x.strides = {outer * inner * pitch, pitch, outer * pitch, step};
  return x;
}

Tensor table_of(const Extents& e, DType dtype, int64_t pairs, bool heads_first) {
  const DType narrow = has(e.with, kNarrowTables) ? dtype : DType::kF32;
  const int64_t rows = e.positions + (has(e.with, kPositionsIn) ? kMoreRows : 0);
  const int64_t batch = has(e.with, kTablesOfBatch) ? e.batch : 1;
  const int64_t heads = has(e.with, kTablesOfHeads) ? e.heads : 1;
  if (batch == 1 && heads == 1) return Tensor::dense(narrow, {rows, pairs});
  return heads_first ? Tensor::dense(narrow, {batch, heads, rows, pairs})
                     : Tensor::dense(narrow, {batch, rows, heads, pairs});
}

}  // namespace

// ---- Operations ---------------------------------------------------------------------------------

void Common::make(const Case& chosen, DType dtype, Problem& problem) {
  const bool has_keys = problem.operation->index_of("k") >= 0;
  const bool heads_first = problem.flag("heads_first");
  const Extents e = extents_of(chosen, has_keys);
  const int64_t pairs = e.pairs > 0 ? e.pairs : e.columns / 2;
  problem.tensor(0) = heads_tensor(e, e.heads, dtype, chosen.padding, heads_first);
  if (has_keys) {
    problem["k"] = heads_tensor(e, chosen.extents[3], dtype, chosen.padding, heads_first);
  }
  if (has(e.with, kTables)) {
    problem["cos"] = table_of(e, dtype, pairs, heads_first);
    problem["sin"] = problem["cos"];
  } else if (e.pairs > 0) {
    const auto attributes = problem.operation->attributes;
    for (size_t i = 0; i < attributes.size(); ++i) {
      if (attributes[i].name == "rotary_dim") problem.attributes[i] = Value(2 * pairs);
    }
  }
  if (has(e.with, kPositionsIn)) {
    const DType index = has(e.with, kNarrowPositions) ? DType::kI32 : DType::kI64;
    problem["positions"] = has(e.with, kPositionsOfBatch)
                               ? Tensor::dense(index, {e.batch, e.positions})
                               : Tensor::dense(index, {e.positions});
  }
}

void Common::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  if (name != "cos" && name != "sin" && name != "positions") return fill_normal(tensor, seed);
  const Tensor& cos = problem["cos"];
  const bool heads_first = problem.flag("heads_first");
  const int64_t most =
      cos.exists() ? cos.extent(cos.rank - (heads_first || cos.rank == 2 ? 2 : 3)) : kFarthest;
  fill_with(tensor, [&](int64_t i) {
    const double random = random_uniform(seed, static_cast<uint64_t>(i));
    return name == "positions" ? std::floor(random * static_cast<double>(most)) : 2 * random - 1;
  });
}

int64_t Common::items(const Problem& problem, const Parameter& output) {
  return problem[output.name].elements();
}
Cost Common::cost(const Problem& problem) {
  const Tensor& k = problem.find("k");
  const int64_t elements = problem.tensor(0).elements() + (k.exists() ? k.elements() : 0);
  return {.bytes = least_traffic(problem), .flops = 3 * static_cast<double>(elements)};
}

// A result is a sum of two products of numbers up to 5, and cancels: what it is off by goes with
// them. An angle in f32, as rungs compute it where there are neither tables nor positions, has 24
// bits: those behind the point grow fewer with the position.
Tolerance Common::tolerance(const Problem& problem, const Parameter& output) {
  Tolerance tolerance{.relative = 1e-6, .worst = 4e-6, .floor = 1};
  const DType dtype = problem[output.name].dtype;
  if (dtype == DType::kF16) tolerance = {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 2e-2};
  if (dtype == DType::kBf16) tolerance = {.relative = 4e-3, .worst = 4e-3, .floor = 2e-2};
  if (problem["cos"].exists() || problem["positions"].exists()) return tolerance;
  const Tensor& x = problem.tensor(0);
  const int64_t last = x.extent(x.rank - (problem.flag("heads_first") ? 2 : 3));
  const double angle = 3e-7 * static_cast<double>(last);  // radians
  tolerance.relative += angle;
  tolerance.floor += 10 * angle / tolerance.worst;
  return tolerance;
}

void Common::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const std::span<const Parameter> all = problem.operation->parameters;
  int input = 0;
  for (size_t p = 0; p < all.size(); ++p) {
    if (all[p].is_read()) continue;
    const Tensor& x = problem.tensor(input++);  // q_out of q, k_out of k
    if (expected[p] == nullptr) continue;
    const Formula formula(problem, x);
    for (int64_t i = slice.first; i < slice.last; ++i) expected[p][i - slice.first] = formula(i);
  }
}

namespace {

// {interleaved, inverse, heads_first, rotary_dim, base}
constexpr std::array<Value, kMaxAttributes> settings(bool interleaved, bool inverse,
                                                     bool heads_first) {
  std::array<Value, kMaxAttributes> all{};
  all[0] = interleaved;
  all[1] = inverse;
  all[2] = heads_first;
  return all;
}
constexpr auto kNeighbours = settings(true, false, false);
constexpr auto kNeighboursBack = settings(true, true, false);
constexpr auto kBack = settings(false, true, false);
constexpr auto kHeadsFirst = settings(false, false, true);
constexpr auto kNeighboursHeadsFirst = settings(true, false, true);

constexpr Case kSmoke[] = {
    {.extents = {2, 3, 2, 16}},
    {.extents = {1, 5, 3, 16}, .attributes = kNeighboursBack},
    {.extents = {2, 4, 3, 32, 0, kTables}, .attributes = kNeighbours},
    {.extents = {2, 3, 3, 32, 8, kTables | kPositionsIn}, .attributes = kNeighbours},
    {.extents = {2, 9, 5, 32, 0, kTables | kNarrowTables}, .attributes = kHeadsFirst},
    {.extents = {1, 3, 2, 11, 3, kPositionsIn | kNarrowPositions | kNoBatch}},
};
constexpr Case kVerify[] = {
    {.extents = {0, 4, 2, 16}},
    {.extents = {1, 1, 1, 2}, .attributes = kNeighbours},
    {.extents = {1, 80, 1, 64}},
    {.extents = {2, 5, 3, 10}},
    {.extents = {1, 4, 9, 32}},
    {.extents = {3, 1, 2, 6}},
    {.extents = {2, 7, 3, 24}, .attributes = kNeighboursHeadsFirst},
    {.extents = {1, 17, 2, 8, 0, kTables}, .attributes = kBack},
    {.extents = {1, 2, 40, 32, 0, kTables | kNarrowTables}, .attributes = kNeighbours},
    {.extents = {2, 3, 9, 32, 8, kTables | kPositionsIn | kPositionsOfBatch}},
    {.extents = {2, 3, 32, 128, 0, kTables}},
    {.extents = {1, 9, 5, 96, 0, kTables}, .attributes = kHeadsFirst},
    {.extents = {2, 4, 3, 16, 0, kTables | kTablesOfHeads | kSwapped}, .attributes = kNeighbours},
    {.extents = {2, 33, 3, 48, 16, kTables | kTablesOfBatch | kNarrowTables},
     .attributes = kNeighboursHeadsFirst},
    {.extents = {1, 3, 2, 512, 0, kTables | kNoBatch}, .attributes = kHeadsFirst},
    {.extents = {2, 3, 2, 16, 0, kTables}, .offset = 1},
    {.extents = {2, 3, 2, 16, 0, kTables | kSwapped}, .padding = 8},
    {.extents = {2, 3, 2, 16, 0, kTables | kSteps}},
    {.extents = {2, 19, 3, 32, 0, kPositionsIn | kPositionsOfBatch}, .attributes = kNeighbours},
    {.extents = {2, 5, 3, 48, 16, kPositionsIn | kSwapped}, .attributes = kBack},
    {.extents = {3, 9, 5, 128, 0, kTables}},
};
constexpr Case kBench[] = {
    {.extents = {4, 8192, 32, 128, 0, kTables}},
    {.extents = {4, 8192, 32, 128, 0, kTables}, .attributes = kNeighbours},
    {.extents = {4, 8192, 32, 128, 0, kTables}, .attributes = kHeadsFirst},
    {.extents = {4, 8192, 32, 128}},
    {.extents = {64, 1, 32, 128, 0, kTables | kPositionsIn | kPositionsOfBatch}},
};

constexpr Case kQkSmoke[] = {
    {.extents = {2, 3, 4, 2, 16}},
    {.extents = {1, 5, 3, 1, 32, 8, kTables | kPositionsIn}, .attributes = kNeighboursBack},
    {.extents = {1, 6, 4, 2, 32, 0, kTables | kNarrowTables | kNoBatch}, .attributes = kHeadsFirst},
};
constexpr Case kQkVerify[] = {
    {.extents = {1, 5, 3, 1, 10}},
    {.extents = {2, 1, 9, 3, 32}},
    {.extents = {1, 7, 2, 2, 16}},
    {.extents = {3, 2, 1, 4, 8}},
    {.extents = {2, 3, 0, 2, 16, 0, kTables}},
    {.extents = {2, 3, 2, 0, 16, 0, kTables}, .attributes = kNeighbours},
    {.extents = {1, 2, 37, 5, 16, 0, kTables | kPositionsIn | kNarrowPositions}},
    {.extents = {2, 4, 3, 2, 16, 0, kTables | kSwapped}, .padding = 8},
    {.extents = {2, 4, 3, 2, 16, 0, kTables}, .offset = 1},
    {.extents = {1, 21, 3, 2, 48, 16, kPositionsIn}, .attributes = kHeadsFirst},
    {.extents = {2, 3, 33, 4, 128, 0, kTables}},
    {.extents = {1, 27, 9, 3, 48, 0, kTables}},
};
constexpr Case kQkBench[] = {
    {.extents = {4, 8192, 32, 8, 128, 0, kTables}},
    {.extents = {4, 8192, 32, 8, 128, 0, kTables}, .attributes = kHeadsFirst},
    {.extents = {64, 1, 32, 8, 128, 0, kTables | kPositionsIn | kPositionsOfBatch}},
};

}  // namespace

Cases Rope::cases() { return {kSmoke, kVerify, kBench}; }
Cases RopeQk::cases() { return {kQkSmoke, kQkVerify, kQkBench}; }

}  // namespace ws::rope
