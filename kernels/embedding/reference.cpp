// Lookups and their gradient on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/embedding/operations.hpp"

namespace ws::embedding {
namespace {

int64_t index_at(const Problem& problem, int64_t i) {
  return static_cast<int64_t>(element(problem["index"], i));
}
// The row that gets nothing, -1: none.
int64_t ignored_of(const Problem& problem, int64_t rows) {
  const Value& given = problem.attribute("padding_idx");
  if (given.is_absent()) return -1;
  return given.as_int() < 0 ? given.as_int() + rows : given.as_int();
}

// ---- Cases ------------------------------------------------------------------------------------

// Around the widths of accesses, of warps and blocks; gaps, transposed indices, i32.
constexpr Case kSmoke[] = {
    {.extents = {7, 64, 5}},
    {.extents = {9, 33, 11, 1}, .attributes = {-1}},
    {.extents = {5, 16, 40, 0, 3}},
    {.extents = {6, 20, 9, 1, 0, 2}, .offset = 1},
};
constexpr Case kVerify[] = {
    {.extents = {0, 8, 4}},
    {.extents = {1, 1, 1}},
    {.extents = {3, 0, 2}},
    {.extents = {300, 8, 17, 1}},
    {.extents = {33, 260, 1000}},
    {.extents = {5, 2056, 7}},
    {.extents = {37, 56, 90}},
    {.extents = {40, 96, 30}, .offset = 1},
    {.extents = {40, 96, 30}, .padding = 8, .attributes = {3}},
    {.extents = {40, 96, 30, 1}, .padding = 3},
    {.extents = {20, 24, 30, 0, 2}, .padding = 8},
    {.extents = {20, 24, 30, 0, 0, 3}},
};
constexpr Case kBench[] = {
    {.extents = {16384, 4096, 128256}},
    {.extents = {16384, 4096, 32}},
    {.extents = {65536, 768, 50304}},
    {.extents = {1 << 20, 64, 1 << 20}},
};

// num_weights, padding_idx, scale_grad_by_freq.
constexpr std::array<Value, kMaxAttributes> table(int64_t rows, Value padding = Value::absent(),
                                                  bool by_frequency = false) {
  return {rows, padding, by_frequency};
}
// Rows of no source, of one, of a piece, of several; sources that are few beside the rows.
constexpr Case kGradientSmoke[] = {
    {.extents = {40, 16}, .attributes = table(9)},
    {.extents = {140, 3, 1}, .attributes = table(2, -1)},
    {.extents = {9, 8, 0, 3}, .attributes = table(5)},
    {.extents = {200, 8}, .attributes = table(3, 1, true)},
    {.extents = {7, 6, 0, 0, 2}, .offset = 1, .attributes = table(4)},
};
constexpr Case kGradientVerify[] = {
    {.extents = {0, 8}, .attributes = table(3)},
    {.extents = {1, 1}, .attributes = table(1)},
    {.extents = {64, 8}, .attributes = table(1)},
    {.extents = {65, 4}, .attributes = table(1, {}, true)},
    {.extents = {130, 5, 1}, .attributes = table(1)},
    {.extents = {150, 8}, .attributes = table(30)},
    {.extents = {1500, 2}, .attributes = table(7)},
    {.extents = {60, 264}, .attributes = table(50, 0)},
    {.extents = {50, 136}, .attributes = table(210, 7, true)},
    {.extents = {33, 5, 1}, .attributes = table(140)},
    {.extents = {60, 40}, .offset = 1, .attributes = table(20)},
    {.extents = {60, 40}, .padding = 8, .attributes = table(20, 19, true)},
    {.extents = {60, 40, 1}, .padding = 3, .attributes = table(20)},
    {.extents = {30, 24, 0, 2}, .attributes = table(6, {}, true)},
    {.extents = {60, 24, 0, 0, 3}, .attributes = table(20)},
};
constexpr Case kGradientBench[] = {
    {.extents = {16384, 4096}, .attributes = table(128256)},
    {.extents = {16384, 4096}, .attributes = table(32)},
    {.extents = {65536, 768}, .attributes = table(50304)},
};

Case bags(int64_t count, int64_t indices, int64_t columns, int64_t rows, int64_t options,
          BagMode mode, bool has_last = false, Value padding = Value::absent()) {
  return {.extents = {count, indices, columns, rows, options},
          .attributes = {Value::choice(static_cast<int>(mode)), has_last, padding}};
}
Case shifted(Case chosen, int64_t padding = 0) {
  chosen.offset = 1;
  chosen.padding = padding;
  return chosen;
}

struct Layout {
  int64_t outer;
  int64_t step;
  int64_t padding;

  // [count, columns], or [outer, count, columns] whose outer dimension lies between.
  Tensor rows(DType dtype, int64_t count, int64_t columns) const {
    const int64_t pitch = columns * step + padding;
    if (outer == 0) {
      Tensor tensor = Tensor::dense(dtype, {count, columns});
      tensor.strides = {pitch, step};
      return tensor;
    }
    Tensor tensor = Tensor::dense(dtype, {outer, count, columns});
    tensor.strides = {pitch, pitch * outer, step};
    return tensor;
  }
  Tensor indices(bool narrow, int64_t count) const {
    Tensor tensor = rows(narrow ? DType::kI32 : DType::kI64, count, 1);
    --tensor.rank;
    return tensor;
  }
};
Layout layout_of(int64_t outer, int64_t step, int64_t padding) {
  return {outer, std::max<int64_t>(step, 1), padding};
}

Tolerance sum_tolerance(DType dtype, int64_t terms) {
  const double size = std::sqrt(static_cast<double>(terms) + 1);
  const double rounding = dtype == DType::kF32 ? 0 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return {.worst = 1.01 * rounding + 1e-5 + 0x1p-22 * size,
          .floor = dtype == DType::kF32 ? size : 1};
}

// ---- Costs ------------------------------------------------------------------------------------

// Bytes of `rows` rows of the table, and all of every other tensor.
double bytes_of_lookup(const Problem& problem, int64_t rows) {
  const Tensor& weight = problem["weight"];
  Problem others = problem;
  others["weight"] = Tensor{};
  return least_traffic(others) + static_cast<double>(rows) * static_cast<double>(weight.extent(1)) *
                                     static_cast<double>(size_of(weight.dtype));
}
int64_t most_rows_read(const Problem& problem) {
  return std::min(problem["index"].elements(), problem["weight"].extent(0));
}
int64_t rows_read(const Problem& problem) {
  std::set<int64_t> rows;
  for (int64_t i = 0; i < problem["index"].elements(); ++i) rows.insert(index_at(problem, i));
  return static_cast<int64_t>(rows.size());
}

}  // namespace

void OfTable::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == 0) return fill_normal(tensor, seed);
  const bool is_gradient = problem.operation->index_of("dy") >= 0;
  const int64_t rows = is_gradient ? problem.integer("num_weights") : problem["weight"].extent(0);
  fill_with(tensor, [&](int64_t i) {
    return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) * static_cast<double>(rows));
  });
}

// ---- embedding --------------------------------------------------------------------------------

void Embedding::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [count, columns, rows, narrow, outer, step] =
      std::tuple{chosen.extents[0], chosen.extents[1], chosen.extents[2],
                 chosen.extents[3], chosen.extents[4], chosen.extents[5]};
  const Layout layout = layout_of(outer, step, chosen.padding);
  problem["weight"] = layout_of(0, step, chosen.padding).rows(dtype, rows, columns);
  problem["index"] = layout.indices(narrow != 0, count);
  problem["y"] = layout.rows(dtype, count, columns);
}
Cases Embedding::cases() { return {.smoke = kSmoke, .verify = kVerify, .bench = kBench}; }

Cost Embedding::cost(const Problem& problem) {
  return {.bytes = bytes_of_lookup(problem, most_rows_read(problem)), .at_most = true};
}
Cost Embedding::cost_of_data(const Problem& problem) {
  return {.bytes = bytes_of_lookup(problem, rows_read(problem))};
}
Tolerance Embedding::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
int64_t Embedding::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["index"].elements();
}
void Embedding::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& weight = problem["weight"];
  const int64_t columns = weight.extent(1);
  double* y = expected[2];
  for (int64_t i = slice.first; i < slice.last; ++i) {
    for (int64_t c = 0; c < columns; ++c)
      *y++ = element(weight, index_at(problem, i) * columns + c);
  }
}

// ---- embedding_backward -----------------------------------------------------------------------

void EmbeddingBackward::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [count, columns, narrow, outer, step] =
      std::tuple{chosen.extents[0], chosen.extents[1], chosen.extents[2], chosen.extents[3],
                 chosen.extents[4]};
  const Layout layout = layout_of(outer, step, chosen.padding);
  problem["dy"] = layout.rows(dtype, count, columns);
  problem["index"] = layout.indices(narrow != 0, count);
  problem["dweight"] =
      layout_of(0, step, chosen.padding).rows(dtype, problem.integer("num_weights"), columns);
}
Cases EmbeddingBackward::cases() {
  return {.smoke = kGradientSmoke, .verify = kGradientVerify, .bench = kGradientBench};
}
Cost EmbeddingBackward::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem), .flops = static_cast<double>(problem["dy"].elements())};
}
Tolerance EmbeddingBackward::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return sum_tolerance(problem.dtype(), problem["index"].elements());
}
int64_t EmbeddingBackward::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.integer("num_weights");
}
void EmbeddingBackward::reference(const Problem& problem, Slice slice,
                                  std::span<double* const> expected) {
  const Tensor& dy = problem["dy"];
  const int64_t columns = dy.extent(dy.rank - 1);
  const int64_t ignored = ignored_of(problem, problem.integer("num_weights"));
  const auto rows = static_cast<size_t>(slice.last - slice.first);
  std::vector<double> counts(rows, 0);
  double* sums = expected[2];
  std::fill_n(sums, static_cast<int64_t>(rows) * columns, 0.0);
  for (int64_t i = 0; i < problem["index"].elements(); ++i) {
    const int64_t index = index_at(problem, i);
    if (index == ignored || index < slice.first || index >= slice.last) continue;
    counts[static_cast<size_t>(index - slice.first)] += 1;
    double* sum = sums + (index - slice.first) * columns;
    for (int64_t c = 0; c < columns; ++c) sum[c] += element(dy, i * columns + c);
  }
  if (!problem.flag("scale_grad_by_freq")) return;
  for (size_t r = 0; r < rows; ++r) {
    double* sum = sums + static_cast<int64_t>(r) * columns;
    for (int64_t c = 0; c < columns && counts[r] > 0; ++c) sum[c] /= counts[r];
  }
}

// ---- embedding_bag ----------------------------------------------------------------------------

// Bags of no, one and two thirds of what three have together.
void EmbeddingBag::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == problem.operation->index_of("index")) return OfTable::fill(problem, index, seed);
  if (index != problem.operation->index_of("offsets")) return fill_normal(tensor, seed);
  const int64_t entries = problem["index"].elements();
  const int64_t bags = problem["y"].extent(0);
  fill_with(tensor, [&](int64_t i) {
    const int64_t share = i - i % 3 + i % 3 / 2;
    return static_cast<double>(i == bags ? entries : entries * share / std::max<int64_t>(bags, 1));
  });
}

void EmbeddingBag::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [count, indices, columns, rows, options] =
      std::tuple{chosen.extents[0], chosen.extents[1], chosen.extents[2], chosen.extents[3],
                 chosen.extents[4]};
  require(indices == 0 || rows > 0, indices, " indices have no row to be of");
  const DType index = (options & kNarrowIndices) != 0 ? DType::kI32 : DType::kI64;
  const int64_t step = (options & kGaps) != 0 ? 2 : 1;
  const auto matrix = [&](DType of, int64_t high, int64_t wide) {
    Tensor tensor = Tensor::dense(of, {high, wide});
    tensor.strides = {(wide + chosen.padding) * step, step};
    if ((options & kTransposed) != 0) tensor.strides = {step, (high + chosen.padding) * step};
    return tensor;
  };
  problem["weight"] = matrix(dtype, rows, columns);
  problem["y"] = matrix(dtype, count, columns);
  const auto entries_of = [&](DType of) {
    if ((options & kOfOneLength) != 0) return matrix(of, count, indices / std::max(count, 1L));
    Tensor tensor = Tensor::dense(of, {indices});
    tensor.strides[0] = step;
    return tensor;
  };
  problem["index"] = entries_of(index);
  if ((options & kHasFactors) != 0) problem["per_sample_weights"] = entries_of(dtype);
  if ((options & kOfOneLength) != 0) return;
  problem["offsets"] =
      Tensor::dense(index, {count + (problem.flag("include_last_offset") ? 1 : 0)});
  problem["offsets"].strides[0] = step;
}

Cases EmbeddingBag::cases() {
  using enum BagMode;
  // Each mode; bags of none, of one, of more than a batch; whole vectors and not.
  static const std::array kSmoke = {
      bags(7, 40, 16, 5, 0, kMean, false, 1),
      bags(5, 30, 9, 11, kNarrowIndices | kHasFactors, kSum, true),
      bags(6, 24, 8, 9, kOfOneLength, kMax),
      shifted(bags(4, 20, 5, 7, kOfOneLength | kHasFactors | kGaps | kTransposed, kSum)),
  };
  static const std::array kVerify = {
      bags(0, 0, 8, 4, 0, kSum),
      bags(0, 0, 8, 4, 0, kSum, true),
      bags(3, 0, 8, 4, 0, kMax),
      bags(3, 9, 0, 4, 0, kMean),
      bags(3, 0, 8, 0, kOfOneLength, kMean),
      bags(1, 1, 1, 1, 0, kMean),
      bags(1, 130, 8, 40, 0, kSum),
      bags(9, 27, 520, 30, kNarrowIndices | kHasFactors, kSum),
      bags(6, 210, 64, 50, kHasFactors, kSum, true),
      bags(5, 95, 128, 40, kNarrowIndices | kOfOneLength | kGaps, kMean, false, 5),
      bags(12, 400, 16, 30, kNarrowIndices | kHasFactors, kSum),
      bags(4, 12, 8, 1, 0, kMean, false, -1),
      bags(33, 100, 24, 30, kNarrowIndices, kMax, true, 3),
      bags(20, 100, 264, 30, kHasFactors, kSum, false, 29),
      bags(40, 160, 8, 30, kOfOneLength, kMean, false, 0),
      shifted(bags(12, 60, 16, 30, 0, kSum), 8),
      shifted(bags(12, 60, 16, 30, kNarrowIndices, kMax), 3),
      bags(12, 60, 16, 30, kGaps | kHasFactors, kSum, true),
      bags(12, 60, 16, 30, kTransposed | kOfOneLength, kMax, false, 2),
  };
  // Recommenders: a million rows of 128 and of 64; bags of one length; some words of a sentence.
  static const std::array kBench = {
      bags(65536, 65536 * 20, 128, 1 << 20, 0, kSum),
      bags(65536, 65536 * 20, 64, 1 << 20, kNarrowIndices | kHasFactors, kSum),
      bags(16384, 16384 * 8, 1024, 50304, kOfOneLength, kMean),
      bags(65536, 65536 * 20, 128, 1 << 20, 0, kMax),
  };
  return {kSmoke, kVerify, kBench};
}

Cost EmbeddingBag::cost(const Problem& problem) {
  return {.bytes = bytes_of_lookup(problem, most_rows_read(problem)),
          .flops = static_cast<double>(problem["index"].elements()) *
                   static_cast<double>(problem["weight"].extent(1)),
          .at_most = true};
}
Cost EmbeddingBag::cost_of_data(const Problem& problem) {
  Cost cost = EmbeddingBag::cost(problem);
  cost.bytes = bytes_of_lookup(problem, rows_read(problem));
  cost.at_most = false;
  return cost;
}
Tolerance EmbeddingBag::tolerance(const Problem& problem, const Parameter& /*output*/) {
  if (problem.choice<BagMode>("mode") == BagMode::kMax) return {};
  return sum_tolerance(problem.dtype(), problem["index"].elements());
}
int64_t EmbeddingBag::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["y"].extent(0);
}
void EmbeddingBag::reference(const Problem& problem, Slice slice,
                             std::span<double* const> expected) {
  const Tensor& weight = problem["weight"];
  const Tensor& index = problem["index"];
  const Tensor& offsets = problem["offsets"];
  const Tensor& factors = problem["per_sample_weights"];
  const auto mode = problem.choice<BagMode>("mode");
  const int64_t columns = weight.extent(1);
  const int64_t ignored = ignored_of(problem, weight.extent(0));
  const auto start_of = [&](int64_t bag) {
    if (!offsets.exists()) return bag * index.extent(1);
    return bag < offsets.extent(0) ? static_cast<int64_t>(element(offsets, bag)) : index.elements();
  };
  double* y = expected[4];
  std::fill_n(y, (slice.last - slice.first) * columns, 0.0);
  for (int64_t bag = slice.first; bag < slice.last; ++bag, y += columns) {
    double count = 0;
    for (int64_t i = start_of(bag); i < start_of(bag + 1); ++i) {
      const int64_t row = index_at(problem, i);
      if (row == ignored) continue;
      const double factor = factors.exists() ? element(factors, i) : 1;
      for (int64_t c = 0; c < columns; ++c) {
        const double value = factor * element(weight, row * columns + c);
        y[c] = mode != BagMode::kMax ? y[c] + value : count == 0 ? value : std::max(y[c], value);
      }
      ++count;
    }
    for (int64_t c = 0; c < columns && mode == BagMode::kMean && count > 0; ++c) y[c] /= count;
  }
}

}  // namespace ws::embedding
