// What indices take and add, on the host in double precision, and what rungs are checked on.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/index_add/operations.hpp"

namespace ws::index_add {
namespace {

int dim_of(const Tensor& tensor, int64_t dim) {
  return static_cast<int>(dim < 0 ? dim + std::max(tensor.rank, 1) : dim);
}
int dim_of(const Problem& problem) { return dim_of(problem.tensor(0), problem.integer("dim")); }
int64_t extent_of(const Tensor& tensor, int dim) {
  return tensor.rank == 0 ? 1 : tensor.extent(dim);
}
// Elements behind one of a dimension.
int64_t inner_of(const Tensor& tensor, int dim) {
  int64_t inner = 1;
  for (int d = dim + 1; d < tensor.rank; ++d) inner *= tensor.extent(d);
  return inner;
}

// ---- Cases ------------------------------------------------------------------------------------

// Extents: indices, inner, rows, outer, layout; attributes: dim, then alpha.
constexpr std::array<Value, kMaxAttributes> along(int64_t dim, Value alpha = {}) {
  return {dim, alpha};
}
// Along the first of two dimensions, the last of two, the middle one of three.
constexpr Case kSmoke[] = {
    {.extents = {40, 16, 9}, .attributes = along(0)},
    {.extents = {25, 1, 7, 6, kNarrowIndex}, .attributes = along(-1)},
    {.extents = {12, 8, 5, 3, kStridedIndex}, .attributes = along(1)},
    {.extents = {150, 5, 2}, .offset = 1, .attributes = along(0)},
    {.extents = {9, 6, 4, 3, kTransposed}, .attributes = along(1)},
};
constexpr Case kVerify[] = {
    {.extents = {0, 8, 3}, .attributes = along(0)},
    {.extents = {1, 1, 1}, .attributes = along(0)},
    {.extents = {64, 8, 1}, .attributes = along(0)},
    {.extents = {65, 4, 1}, .attributes = along(0)},
    {.extents = {130, 264, 2, 0, kNarrowIndex}, .attributes = along(0)},
    {.extents = {1500, 2, 7}, .attributes = along(-2)},
    {.extents = {30, 40, 50}, .offset = 1, .attributes = along(0)},
    {.extents = {30, 40, 110}, .padding = 8, .attributes = along(0)},
    {.extents = {30, 40, 20, 3}, .padding = 3, .attributes = along(1)},
    {.extents = {300, 1, 20, 5}, .attributes = along(1)},
    {.extents = {20, 24, 11, 4, kTransposed | kNarrowIndex}, .attributes = along(1)},
    {.extents = {20, 24, 11, 2, kStridedIndex}, .attributes = along(1)},
};
constexpr Case kBench[] = {
    {.extents = {16384, 4096, 128256}, .attributes = along(0)},
    {.extents = {16384, 4096, 32}, .attributes = along(0)},
    {.extents = {1 << 20, 64, 1 << 16}, .attributes = along(0)},
    {.extents = {4096, 1, 4096, 4096}, .attributes = along(1)},
};
template <size_t kCount, size_t kMore>
constexpr std::array<Case, kCount + kMore> with(const Case (&cases)[kCount],
                                                const Case (&more)[kMore]) {
  std::array<Case, kCount + kMore> all{};
  std::copy_n(more, kMore, std::copy_n(cases, kCount, all.begin()));
  return all;
}
constexpr auto kAddSmoke =
    with(kSmoke, {{.extents = {140, 16, 3, 2}, .attributes = along(1, -1.5)},
                  {.extents = {24, 1, 16, 5}, .attributes = along(-1, 2.0)}});
constexpr auto kScatterSmoke = with(kSmoke, {{.extents = {24, 1, 16, 5}, .attributes = along(-1)}});
// Of several tiles of columns and parts of their indices; of as many rows as a block keeps; of rows
// of several stages; of few sources beside the rows; of lines that a block goes along in several
// turns, the last of them not whole.
constexpr auto kAddVerify =
    with(kVerify, {{.extents = {200, 520, 6}, .attributes = along(0)},
                   {.extents = {90, 40, 192, 0, kNarrowIndex}, .attributes = along(0)},
                   {.extents = {9, 4112, 3}, .attributes = along(0)},
                   {.extents = {40, 72, 170, 2}, .attributes = along(1, 0.5)},
                   {.extents = {1044, 1, 2056, 3, kNarrowIndex}, .attributes = along(-1)},
                   {.extents = {9002, 1, 1024, 2}, .attributes = along(-1)}});
// Along the last dimension in whole vectors; of two blocks for a line, which go on where indices
// are of 64 bits. Rows of which a block has a part, and several. Columns of several tiles and parts
// of their indices, the last of each not whole; around them another loop; of as many rows as a
// block keeps.
constexpr auto kTakeSmoke =
    with(kSmoke, {{.extents = {36, 1, 24, 3}, .attributes = along(-1)},
                  {.extents = {140, 1, 16, 2, kNarrowIndex}, .padding = 8, .attributes = along(-1)},
                  {.extents = {12, 8, 5, 3, kIndexOfRow}, .attributes = along(1)}});
constexpr auto kTakeVerify =
    with(kVerify, {{.extents = {16640, 1, 8704}, .attributes = along(-1)},
                   {.extents = {524, 1, 264, 2, kNarrowIndex}, .attributes = along(-1)},
                   {.extents = {9, 4104, 3, 0, kIndexOfRow}, .attributes = along(0)},
                   {.extents = {70, 24, 11, 3, kIndexOfRow | kNarrowIndex | kStridedIndex},
                    .padding = 8,
                    .attributes = along(1)},
                   {.extents = {601, 136, 3}, .padding = 4, .attributes = along(0)},
                   {.extents = {270, 260, 2, 2, kNarrowIndex}, .attributes = along(1)},
                   {.extents = {20, 12, 192}, .attributes = along(0)},
                   {.extents = {5, 40, 24}, .attributes = along(0)}});

struct Chosen {
  int64_t count, inner, rows, outer;
  int layout;
  int64_t padding;

  explicit Chosen(const Case& chosen)
      : count(chosen.extents[0]),
        inner(chosen.extents[1]),
        rows(chosen.extents[2]),
        outer(std::max<int64_t>(chosen.extents[3], 1)),
        layout(static_cast<int>(chosen.extents[4])),
        padding(chosen.padding) {}

  // [outer, along, inner], without the outer or the inner dimension where the dimension is said to
  // be the first or the last; transposed with the outer one innermost.
  Tensor tensor(DType dtype, int64_t along, int64_t dim) const {
    std::vector<int64_t> shape;
    if (dim != 0 && dim != -2) shape.push_back(outer);
    shape.push_back(along);
    if (dim != -1) shape.push_back(inner);
    Tensor tensor = Tensor::dense(dtype, shape);
    const auto last = static_cast<size_t>(tensor.rank - 1);
    if ((layout & kTransposed) != 0 && tensor.rank == 3) {
      tensor.strides = {1, outer * inner, outer};
    } else if (padding > 0 && tensor.rank > 1) {
      tensor.strides[last - 1] += padding;
      if (tensor.rank == 3) tensor.strides[0] = tensor.strides[1] * along;
    }
    return tensor;
  }
  DType index_type() const { return (layout & kNarrowIndex) != 0 ? DType::kI32 : DType::kI64; }
  Tensor strided(Tensor index) const {
    if ((layout & kStridedIndex) != 0) {
      for (size_t d = 0; static_cast<int>(d) < index.rank; ++d) index.strides[d] *= 3;
    }
    return index;
  }
  Tensor list() const { return strided(Tensor::dense(index_type(), {count})); }
  Tensor elements(int64_t dim) const {
    Tensor index = strided(Tensor::like(tensor(index_type(), count, dim)));
    if ((layout & kIndexOfRow) != 0) {
      for (int d = dim_of(index, dim) + 1; d < index.rank; ++d) {
        index.strides[static_cast<size_t>(d)] = 0;
      }
    }
    return index;
  }
};

Tolerance sum_tolerance(DType dtype, int64_t terms) {
  const double size = std::sqrt(static_cast<double>(terms) + 1);
  const double rounding = dtype == DType::kF32 ? 0 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return {.worst = 1.01 * rounding + 1e-5 + 0x1p-22 * size,
          .floor = dtype == DType::kF32 ? size : 1};
}

// The elements of some dimensions of a shape, by their numbers there, and in other tensors, whose
// extents may be larger.
class Places {
 public:
  Places(const Tensor& shape, std::array<const Tensor*, 2> tensors, int first, int last) {
    for (int d = first; d < last; ++d) count_ *= shape.extent(d);
    for (size_t t = 0; t < tensors.size(); ++t) {
      for (int64_t i = 0; i < count_; ++i) {
        int64_t rest = i;
        int64_t place = 0;
        int64_t step = 1;
        for (int d = last - 1; d >= first; --d) {
          place += rest % shape.extent(d) * step;
          rest /= shape.extent(d);
          step *= tensors[t]->extent(d);
        }
        places_[t].push_back(place);
      }
    }
  }
  int64_t count() const { return count_; }
  int64_t of(size_t tensor, int64_t i) const { return places_[tensor][static_cast<size_t>(i)]; }

 private:
  int64_t count_ = 1;
  std::array<std::vector<int64_t>, 2> places_;
};

// index(item) for each item, an element of the table that expected[written] has from
// slice.first on: x + alpha * what is added there.
template <class IndexOf>
void add_reference(const Problem& problem, std::string_view source_name, double alpha, Slice slice,
                   double* y, const IndexOf& index_of) {
  const Tensor& x = problem["x"];
  const Tensor& source = problem[source_name];
  const Tensor& index = problem["index"];
  const int dim = dim_of(problem);
  const int64_t rows = extent_of(x, dim);
  const int64_t inner = inner_of(x, dim);
  for (int64_t e = slice.first * inner; e < slice.last * inner; ++e) {
    *y++ = element(x, e);
  }
  y -= (slice.last - slice.first) * inner;
  const bool is_list = index.rank != source.rank || source_name == "source";
  // The elements that have an index: `before` the dimension, along it, `behind` it. Where these are
  // in x and in the source, which may have more.
  const Tensor& shape = is_list ? source : index;
  const int64_t count = extent_of(shape, dim);
  const Places before(shape, {&x, &source}, 0, dim);
  const Places behind(shape, {&x, &source}, dim + 1, shape.rank);
  const int64_t source_inner = inner_of(source, dim);
  for (int64_t outer = 0; outer < before.count(); ++outer) {
    const int64_t first = before.of(0, outer) * rows;
    if (first >= slice.last || first + rows <= slice.first) continue;
    for (int64_t along = 0; along < count; ++along) {
      const int64_t from = (before.of(1, outer) * extent_of(source, dim) + along) * source_inner;
      for (int64_t k = 0; k < behind.count(); ++k) {
        const int64_t row = first + index_of((outer * count + along) * behind.count() + k, along);
        if (row >= slice.first && row < slice.last) {
          y[(row - slice.first) * inner + behind.of(0, k)] +=
              alpha * element(source, from + behind.of(1, k));
        } else if (is_list) {
          break;
        }
      }
    }
  }
}

// Of elements that are taken: where element i of y is in x.
template <class IndexOf>
void take_reference(const Problem& problem, Slice slice, double* y, const IndexOf& index_of) {
  const Tensor& x = problem["x"];
  const Tensor& shape = problem["y"];
  const int dim = dim_of(problem);
  const int64_t inner = inner_of(shape, dim);
  std::array<int64_t, kMaxRank> at{};
  for (int64_t i = slice.first * inner; i < slice.last * inner; ++i) {
    int64_t rest = i;
    for (int d = shape.rank - 1; d >= 0; --d) {
      at[static_cast<size_t>(d)] = rest % shape.extent(d);
      rest /= shape.extent(d);
    }
    int64_t from = 0;
    for (int d = 0; d < shape.rank; ++d) {
      const int64_t own = at[static_cast<size_t>(d)];
      from = from * x.extent(d) + (d == dim ? index_of(i, own) : own);
    }
    *y++ = element(x, from);
  }
}

// The indices of a problem. Of scatter_add each slice of the reference reads all of them.
class Indices {
 public:
  explicit Indices(const Problem& problem) : tensor_(problem["index"]) {
    if (!tensor_.contiguous()) return;
    if (tensor_.dtype == DType::kI64) wide_ = tensor_.as<const int64_t>();
    if (tensor_.dtype == DType::kI32) narrow_ = tensor_.as<const int32_t>();
  }
  int64_t operator[](int64_t i) const {
    if (wide_ != nullptr) return wide_[i];
    if (narrow_ != nullptr) return narrow_[i];
    return static_cast<int64_t>(element(tensor_, i));
  }

 private:
  const Tensor& tensor_;
  const int64_t* wide_ = nullptr;
  const int32_t* narrow_ = nullptr;
};

// Elements times 2, of which those that are read by index may be fewer.
Cost take_cost(const Problem& problem) {
  const Tensor& y = problem["y"];
  const auto size = static_cast<double>(size_of(y.dtype));
  const auto taken = static_cast<double>(std::min(y.elements(), problem["x"].elements()));
  return {.bytes = static_cast<double>(problem["index"].elements()) *
                       static_cast<double>(size_of(problem["index"].dtype)) +
                   size * (static_cast<double>(y.elements()) + taken),
          .at_most = true};
}
Cost add_cost(const Problem& problem, std::string_view source) {
  return {.bytes = least_traffic(problem),
          .flops = static_cast<double>(problem[source].elements())};
}

}  // namespace

void AlongDimension::fill(const Problem& problem, int index, uint64_t seed) {
  if (index != problem.operation->index_of("index")) {
    return fill_normal_input(problem, index, seed);
  }
  const auto rows = static_cast<double>(extent_of(problem["x"], dim_of(problem)));
  fill_with(problem.tensor(index), [&](int64_t i) {
    return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) * rows);
  });
}

// A row is what lies behind an index.
int64_t AlongDimension::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& y = problem["y"];
  const int64_t inner = inner_of(y, dim_of(problem));
  return inner == 0 ? 0 : y.elements() / inner;
}

// ---- index_add --------------------------------------------------------------------------------

void IndexAdd::make(const Case& chosen, DType dtype, Problem& problem) {
  const Chosen c(chosen);
  const int64_t dim = problem.integer("dim");
  problem["x"] = problem["y"] = c.tensor(dtype, c.rows, dim);
  problem["source"] = c.tensor(dtype, c.count, dim);
  problem["index"] = c.list();
}
Cases IndexAdd::cases() { return {.smoke = kAddSmoke, .verify = kAddVerify, .bench = kBench}; }
Cost IndexAdd::cost(const Problem& problem) { return add_cost(problem, "source"); }
Tolerance IndexAdd::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return sum_tolerance(problem.dtype(), problem["index"].elements());
}
// Each addition rounds a sum that grows like a random walk.
Tolerance IndexAdd::tolerance_in(const Problem& problem, const Parameter& /*output*/,
                                 DType accumulate) {
  const auto terms = static_cast<double>(problem["index"].elements());
  const double rounding = accumulate == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return {.worst = 2 * rounding * std::sqrt(terms + 1), .floor = std::sqrt(terms + 1)};
}
void IndexAdd::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  add_reference(problem, "source", static_cast<float>(problem.number("alpha")), slice, expected[3],
                [index = Indices(problem)](int64_t /*i*/, int64_t own) { return index[own]; });
}

// ---- index_select -----------------------------------------------------------------------------

void IndexSelect::make(const Case& chosen, DType dtype, Problem& problem) {
  const Chosen c(chosen);
  const int64_t dim = problem.integer("dim");
  problem["x"] = c.tensor(dtype, c.rows, dim);
  problem["y"] = c.tensor(dtype, c.count, dim);
  problem["index"] = c.list();
}
Cases IndexSelect::cases() { return {.smoke = kTakeSmoke, .verify = kTakeVerify, .bench = kBench}; }
Cost IndexSelect::cost(const Problem& problem) { return take_cost(problem); }
Tolerance IndexSelect::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) {
  return {};
}
void IndexSelect::reference(const Problem& problem, Slice slice,
                            std::span<double* const> expected) {
  take_reference(problem, slice, expected[2],
                 [index = Indices(problem)](int64_t /*i*/, int64_t own) { return index[own]; });
}

// ---- gather -----------------------------------------------------------------------------------

void Gather::make(const Case& chosen, DType dtype, Problem& problem) {
  const Chosen c(chosen);
  const int64_t dim = problem.integer("dim");
  problem["x"] = c.tensor(dtype, c.rows, dim);
  problem["index"] = c.elements(dim);
  problem["y"] = Tensor::like(problem["index"], dtype);
}
Cases Gather::cases() { return {.smoke = kTakeSmoke, .verify = kTakeVerify, .bench = kBench}; }
Cost Gather::cost(const Problem& problem) { return take_cost(problem); }
Tolerance Gather::tolerance(const Problem& /*problem*/, const Parameter& /*output*/) { return {}; }
void Gather::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  take_reference(problem, slice, expected[2],
                 [index = Indices(problem)](int64_t i, int64_t /*own*/) { return index[i]; });
}

// ---- scatter_add ------------------------------------------------------------------------------

void ScatterAdd::make(const Case& chosen, DType dtype, Problem& problem) {
  const Chosen c(chosen);
  const int64_t dim = problem.integer("dim");
  problem["x"] = problem["y"] = c.tensor(dtype, c.rows, dim);
  problem["src"] = c.tensor(dtype, c.count, dim);
  problem["index"] = c.elements(dim);
}
Cases ScatterAdd::cases() {
  return {.smoke = kScatterSmoke, .verify = kAddVerify, .bench = kBench};
}
Cost ScatterAdd::cost(const Problem& problem) { return add_cost(problem, "src"); }
Tolerance ScatterAdd::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return sum_tolerance(problem.dtype(), extent_of(problem["src"], dim_of(problem)));
}
void ScatterAdd::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  add_reference(problem, "src", 1, slice, expected[3],
                [index = Indices(problem)](int64_t i, int64_t /*own*/) { return index[i]; });
}

}  // namespace ws::index_add
