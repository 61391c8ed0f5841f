// What products of matrices in coordinates, in slots and in blocks compute, in double precision;
// their shapes, inputs, cost and tolerance, and the problems to verify and to time.
#include <algorithm>
#include <cmath>

#include "catalogue/fill.hpp"
#include "kernels/spmv/reference.hpp"

namespace ws::spmv {
namespace {

DType index_of(int64_t options) {
  return (options & kWideIndices) != 0 ? DType::kI64 : DType::kI32;
}

// What every format asks for; `what` its matrix and x are, where one of them is wrong.
template <class... Parts>
void require_of(bool condition, const Problem& problem, const Parts&... what) {
  if (condition) [[likely]]
    return;
  std::string text = concatenate(problem.operation->name, " takes ", what...);
  for (const Parameter& parameter : problem.operation->parameters) {
    if (parameter.name == "added") break;
    text += concatenate(parameter.name == "values" ? ": " : ", ", parameter.name, " ",
                        problem[parameter.name]);
  }
  throw InvalidArgument(text);
}

void require_dtypes(const Problem& problem, std::string_view first, std::string_view second) {
  const DType dtype = problem.dtype();
  const DType index = problem[first].dtype;
  require_of(problem["x"].rank == 1, problem, "a vector x");
  require_of(kValues.has(dtype) && problem["x"].dtype == dtype, problem, "one dtype of ",
             to_string(kValues));
  require_of(kIndices.has(index) && problem[second].dtype == index, problem,
             first == second ? "col" : concatenate(first, " and ", second, " of one dtype"),
             ", i32 or i64");
}

double uniform_column(uint64_t seed, int64_t i, int64_t columns) {
  return std::floor(random_uniform(seed, static_cast<uint64_t>(i)) * static_cast<double>(columns));
}

Cost cost_of(const Problem& problem, double entries) {
  return {.bytes = least_traffic(problem), .flops = 2 * entries};
}

}  // namespace

// ---- spmv_coo -----------------------------------------------------------------------------------

CooCall SpmvCoo::call(const Problem& problem) {
  CooCall call;
  set_vectors(problem, call);
  call.dtype = problem.dtype();
  call.index = problem["row"].dtype;
  call.rows = problem.integer("rows");
  call.columns = problem["x"].extent(0);
  call.entries = problem["row"].extent(0);
  call.values = problem["values"].data;
  call.row = problem["row"].data;
  call.col = problem["col"].data;
  call.value_step = step_of(problem["values"]);
  call.row_step = step_of(problem["row"]);
  call.col_step = step_of(problem["col"]);
  call.is_ordered = problem.flag("ordered");
  return call;
}

void SpmvCoo::infer(Problem& problem) {
  const Tensor& values = problem["values"];
  const Tensor& row = problem["row"];
  const Tensor& col = problem["col"];
  const int64_t rows = problem.integer("rows");
  require_dtypes(problem, "row", "col");
  require_of(values.rank == 1 && row.rank == 1 && col.rank == 1, problem,
             "values, row and col of one dimension");
  require_of(values.extent(0) == row.extent(0) && values.extent(0) == col.extent(0), problem,
             "a value, a row and a column for each entry");
  require(rows >= 0, "spmv_coo takes a matrix of ", rows, " rows: none is fewer than 0");
  infer_result(problem, rows);
}

void SpmvCoo::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [columns, entries, step, options, unused1, unused2, unused3, unused4] = chosen.extents;
  require(entries == 0 || columns > 0, entries, " entries have no column to be in");
  problem["values"] = Tensor::dense(dtype, {entries});
  problem["row"] = Tensor::dense(index_of(options), {entries});
  problem["col"] = Tensor::dense(index_of(options), {entries});
  if ((options & kGaps) != 0) {
    problem["values"].strides[0] = 2;
    problem["row"].strides[0] = 3;
    problem["col"].strides[0] = 4;
  }
  make_vectors(problem, dtype, columns, problem.integer("rows"), (options & kHasAdded) != 0, step);
}

Cost SpmvCoo::cost(const Problem& problem) {
  return cost_of(problem, static_cast<double>(problem["row"].extent(0)));
}

// Entries behind the last row's go to it.
Tolerance SpmvCoo::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const int64_t entries = problem["row"].extent(0);
  const std::vector<int64_t> starts = starts_of(problem.integer("rows"), entries);
  int64_t longest = starts.size() < 2 ? 0 : entries - starts[starts.size() - 2];
  for (size_t row = 0; row + 1 < starts.size(); ++row) {
    longest = std::max(longest, starts[row + 1] - starts[row]);
  }
  return tolerance_of_result(problem, longest);
}

int64_t SpmvCoo::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.integer("rows");
}

// Rows are as long as those of spmv_csr. Where entries are not ordered, they come as steps of a
// prime find them.
void SpmvCoo::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  if (name == "col") {
    const int64_t columns = problem["x"].extent(0);
    fill_with(tensor, [&](int64_t j) { return uniform_column(seed, j, columns); });
  } else if (name == "row") {
    const int64_t rows = problem.integer("rows");
    const int64_t entries = tensor.extent(0);
    const std::vector<int64_t> starts = starts_of(rows, entries);
    constexpr int64_t kPrime = 2654435761;
    const int64_t step = problem.flag("ordered") ? 1 : kPrime;
    fill_with(tensor, [&](int64_t j) {
      const auto end = std::ranges::upper_bound(starts, j * step % entries);
      return static_cast<double>(std::max<int64_t>(std::min(end - starts.begin(), rows) - 1, 0));
    });
  } else {
    fill_normal(tensor, seed);
  }
}

// Slices are rows.
void SpmvCoo::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  double* const y = expected.back();
  std::fill_n(y, slice.last - slice.first, 0.0);
  for (int64_t j = 0; j < problem["row"].extent(0); ++j) {
    const auto row = static_cast<int64_t>(element(problem["row"], j));
    if (row < slice.first || row >= slice.last) continue;
    const auto column = static_cast<int64_t>(element(problem["col"], j));
    y[row - slice.first] += element(problem["values"], j) * element(problem["x"], column);
  }
  for (int64_t row = slice.first; row < slice.last; ++row) {
    y[row - slice.first] = completed(problem, row, y[row - slice.first]);
  }
}

// ---- spmv_ell -----------------------------------------------------------------------------------

namespace {

// A quarter of all slots, wherever; all of a matrix without columns.
bool is_padding(const Problem& problem, int64_t i) {
  return problem["x"].extent(0) == 0 || random_uniform(5, static_cast<uint64_t>(i)) < 0.25;
}

}  // namespace

EllCall SpmvEll::call(const Problem& problem) {
  const Tensor& values = problem["values"];
  const Tensor& col = problem["col"];
  const auto stride = [](const Tensor& tensor, int d) {
    return tensor.extent(d) <= 1 ? 1 : tensor.stride(d);
  };
  EllCall call;
  set_vectors(problem, call);
  call.dtype = problem.dtype();
  call.index = col.dtype;
  call.rows = values.extent(0);
  call.columns = problem["x"].extent(0);
  call.slots = values.extent(1);
  call.values = values.data;
  call.col = col.data;
  call.value_row = stride(values, 0);
  call.value_slot = stride(values, 1);
  call.col_row = stride(col, 0);
  call.col_slot = stride(col, 1);
  return call;
}

void SpmvEll::infer(Problem& problem) {
  const Tensor& values = problem["values"];
  require_dtypes(problem, "col", "col");
  require_of(values.rank == 2 && values.same_shape(problem["col"]), problem,
             "values and col of two dimensions, as many of one as of the other");
  infer_result(problem, values.extent(0));
}

void SpmvEll::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [rows, columns, slots, step, options, unused1, unused2, unused3] = chosen.extents;
  const std::array<DType, 2> dtypes = {dtype, index_of(options)};
  for (size_t i = 0; i < dtypes.size(); ++i) {
    Tensor& tensor = problem.tensor(static_cast<int>(i));
    tensor = Tensor::dense(dtypes[i], {rows, slots});
    if ((options & kTransposed) != 0) {
      tensor.strides = {1, std::max<int64_t>(rows, 1) + chosen.padding};
    } else {
      tensor.strides[0] += chosen.padding;
    }
    if ((options & kGaps) == 0) continue;
    tensor.strides[0] *= 2;
    tensor.strides[1] *= 2;
  }
  make_vectors(problem, dtype, columns, rows, (options & kHasAdded) != 0, step);
}

Cost SpmvEll::cost(const Problem& problem) {
  return cost_of(problem, static_cast<double>(problem["values"].elements()));
}

Tolerance SpmvEll::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of_result(problem, problem["values"].extent(1));
}

int64_t SpmvEll::items(const Problem& problem, const Parameter& /*output*/) {
  return problem["values"].extent(0);
}

// Values of padding are large, so that one that counts is seen.
void SpmvEll::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const int64_t columns = problem["x"].extent(0);
  if (index == problem.operation->index_of("col")) {
    fill_with(tensor, [&](int64_t i) {
      return is_padding(problem, i) ? -1 : uniform_column(seed, i, columns);
    });
  } else if (index == problem.operation->index_of("values")) {
    fill_with(tensor, [&](int64_t i) {
      return is_padding(problem, i) ? 30000 : random_normal(seed, static_cast<uint64_t>(i));
    });
  } else {
    fill_normal(tensor, seed);
  }
}

// Slices are rows.
void SpmvEll::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const int64_t slots = problem["values"].extent(1);
  for (int64_t row = slice.first; row < slice.last; ++row) {
    double sum = 0;
    for (int64_t i = row * slots; i < (row + 1) * slots; ++i) {
      const auto column = static_cast<int64_t>(element(problem["col"], i));
      if (column >= 0) sum += element(problem["values"], i) * element(problem["x"], column);
    }
    expected.back()[row - slice.first] = completed(problem, row, sum);
  }
}

// ---- spmv_bsr -----------------------------------------------------------------------------------

BsrCall SpmvBsr::call(const Problem& problem) {
  const Tensor& values = problem["values"];
  const auto stride = [&](int d) { return values.extent(d) <= 1 ? 0 : values.stride(d); };
  BsrCall call;
  set_vectors(problem, call);
  call.dtype = problem.dtype();
  call.index = problem["crow"].dtype;
  call.rows = problem["crow"].extent(0) - 1;
  call.block_rows = values.extent(1);
  call.block_columns = values.extent(2);
  call.columns = problem["x"].extent(0) / call.block_columns;
  call.entries = values.extent(0);
  call.values = values.data;
  call.crow = problem["crow"].data;
  call.col = problem["col"].data;
  call.crow_step = step_of(problem["crow"]);
  call.col_step = step_of(problem["col"]);
  call.value_step = stride(0);
  call.value_row = stride(1);
  call.value_column = stride(2);
  return call;
}

void SpmvBsr::infer(Problem& problem) {
  const Tensor& values = problem["values"];
  const Tensor& crow = problem["crow"];
  const Tensor& col = problem["col"];
  require_dtypes(problem, "crow", "col");
  require_of(values.rank == 3 && crow.rank == 1 && col.rank == 1, problem,
             "values of three dimensions, crow and col of one");
  require_of(crow.extent(0) >= 1, problem, "a crow of an element more than there are block rows");
  require_of(values.extent(0) == col.extent(0), problem, "a column for each block");
  require_of(values.extent(1) >= 1 && values.extent(2) >= 1, problem,
             "blocks of an element or more");
  require_of(problem["x"].extent(0) % values.extent(2) == 0, problem,
             "an x of whole columns of blocks");
  require_of(crow.extent(0) - 1 <= kMostBytes / values.extent(1), problem,
             "fewer than 2^47 rows in all");
  infer_result(problem, (crow.extent(0) - 1) * values.extent(1));
}

void SpmvBsr::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [rows, columns, blocks, block_rows, block_columns, step, options, unused] =
      chosen.extents;
  Tensor& values = problem["values"];
  values = Tensor::dense(dtype, {blocks, block_rows, block_columns});
  if ((options & kTransposed) != 0) {
    values.strides[1] = 1;
    values.strides[2] = block_rows;
  }
  problem["crow"] = Tensor::dense(index_of(options), {rows + 1});
  problem["col"] = Tensor::dense(index_of(options), {blocks});
  if ((options & kGaps) != 0) {
    values.strides[0] += 3;
    problem["crow"].strides[0] = 3;
    problem["col"].strides[0] = 4;
  }
  make_vectors(problem, dtype, columns * block_columns, rows * block_rows,
               (options & kHasAdded) != 0, step);
}

Cost SpmvBsr::cost(const Problem& problem) {
  return cost_of(problem, static_cast<double>(problem["values"].elements()));
}

Tolerance SpmvBsr::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const int64_t longest = longest_row(problem["crow"].extent(0) - 1, problem["values"].extent(0));
  return tolerance_of_result(problem, longest * problem["values"].extent(2));
}

int64_t SpmvBsr::items(const Problem& problem, const Parameter& /*output*/) {
  return (problem["crow"].extent(0) - 1) * problem["values"].extent(1);
}

void SpmvBsr::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == problem.operation->index_of("crow")) {
    fill_starts(tensor, problem["values"].extent(0));
  } else if (index == problem.operation->index_of("col")) {
    const int64_t columns =
        problem["x"].extent(0) / std::max<int64_t>(problem["values"].extent(2), 1);
    fill_with(tensor, [&](int64_t j) { return uniform_column(seed, j, columns); });
  } else {
    fill_normal(tensor, seed);
  }
}

// Slices are rows.
void SpmvBsr::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& values = problem["values"];
  const int64_t block_rows = values.extent(1);
  const int64_t block_columns = values.extent(2);
  for (int64_t row = slice.first; row < slice.last; ++row) {
    double sum = 0;
    const auto end = static_cast<int64_t>(element(problem["crow"], row / block_rows + 1));
    for (auto j = static_cast<int64_t>(element(problem["crow"], row / block_rows)); j < end; ++j) {
      const auto column = static_cast<int64_t>(element(problem["col"], j));
      const int64_t first = (j * block_rows + row % block_rows) * block_columns;
      for (int64_t k = 0; k < block_columns; ++k) {
        sum += element(values, first + k) * element(problem["x"], column * block_columns + k);
      }
    }
    expected.back()[row - slice.first] = completed(problem, row, sum);
  }
}

// ---- Cases --------------------------------------------------------------------------------------

namespace {

Case coordinates(int64_t rows, int64_t columns, int64_t entries, bool ordered, int64_t options = 0,
                 int64_t step = 0, int offset = 0, double alpha = 1, double beta = 1) {
  return {.extents = {columns, entries, step, options},
          .offset = offset,
          .attributes = {Value(rows), Value(ordered), Value(alpha), Value(beta)}};
}
Case slots(int64_t rows, int64_t columns, int64_t count, int64_t options = 0, int64_t step = 0,
           int64_t padding = 0, int offset = 0, double alpha = 1, double beta = 1) {
  return {.extents = {rows, columns, count, step, options},
          .offset = offset,
          .padding = padding,
          .attributes = {Value(alpha), Value(beta)}};
}
Case blocks(int64_t rows, int64_t columns, int64_t count, int64_t r, int64_t c, int64_t options = 0,
            int64_t step = 0, int offset = 0, double alpha = 1, double beta = 1) {
  return {.extents = {rows, columns, count, r, c, step, options},
          .offset = offset,
          .attributes = {Value(alpha), Value(beta)}};
}

}  // namespace

Cases SpmvCoo::cases() {
  static const std::array kSmoke = {
      coordinates(40, 30, 202, false),
      coordinates(40, 30, 202, true),
      coordinates(9, 17, 73, true, kWideIndices | kHasAdded, 2, 1, 0.5, -2),
  };
  // Four entries a thread, 128 a warp, 2048 a tile, 1024 a run of the sort, 16384 of those by runs:
  // one less, one more; rows of each kind, over warps and over tiles; no entries, no rows;
  // unaligned; gaps.
  static const std::array kVerify = {
      coordinates(1, 1, 1, true),
      coordinates(5, 8, 0, true, kHasAdded),
      coordinates(5, 8, 0, false, kHasAdded, 0, 0, 2, 0.5),
      coordinates(5, 0, 0, false),
      coordinates(0, 8, 0, true),
      coordinates(1, 40, 131, true),
      coordinates(300, 20, 127, true),
      coordinates(33, 64, 33 * 4 + 3, true, kGaps),
      coordinates(70, 64, 70 * 9 + 5, true, kHasAdded, 0, 0, -1, 0),
      coordinates(5, 64, 511, true, 0, 0, 1),
      coordinates(3000, 50, 2047, true),
      coordinates(3, 50, 2048, true, kWideIndices, 0, 2),
      coordinates(200, 50, 2049, true),
      coordinates(20, 50, 20 * 220 + 1, true, kHasAdded, 3, 0, 2, 0.5),
      coordinates(1, 9, 17, false),
      coordinates(7, 9, 1023, false, kGaps, 3),
      coordinates(50, 9, 1025, false, kWideIndices | kHasAdded, 0, 1, -1, 2),
      coordinates(300, 100, 2101, false),
      coordinates(3000, 100, 16385, false, kGaps),
  };
  // 16 a row; a power law; one row that has nearly all; and in no order.
  static const std::array kBench = {
      coordinates(1 << 20, 1 << 20, 16 << 20, true),
      coordinates(1 << 20, 1 << 20, (16 << 20) + 2, true),
      coordinates(1 << 20, 1 << 20, (16 << 20) + 1, true),
      coordinates(1 << 20, 1 << 20, 16 << 20, false),
  };
  return {kSmoke, kVerify, kBench};
}

Cases SpmvEll::cases() {
  static const std::array kSmoke = {
      slots(40, 30, 5),
      slots(41, 30, 6, kTransposed),
      slots(9, 17, 7, kWideIndices | kHasAdded, 2, 1, 1, 0.5, -2),
  };
  // Lanes of 1 to 32, four slots each, and rounds of them; four rows a thread; whole vectors, not
  // aligned, with gaps; no slots, no columns, no rows.
  static const std::array kVerify = {
      slots(1, 1, 1),
      slots(5, 8, 0, kHasAdded),
      slots(5, 0, 3),
      slots(0, 8, 4),
      slots(300, 20, 1),
      slots(70, 64, 4, kHasAdded, 0, 0, 0, -1, 0),
      slots(33, 64, 17, kGaps),
      slots(35, 64, 16, kWideIndices),
      slots(9, 300, 127, 0, 0, 1),
      slots(7, 300, 132),
      slots(65, 40, 8, 0, 0, 0, 1),
      slots(513, 20, 3, kTransposed),
      slots(64, 20, 9, kTransposed | kHasAdded, 3, 4, 0, 2, 0.5),
      slots(66, 20, 9, kTransposed | kWideIndices, 0, 1),
      slots(67, 20, 5, kTransposed, 2, 1, 1),
      slots(35, 20, 5, kTransposed | kGaps),
  };
  static const std::array kBench = {
      slots(1 << 20, 1 << 20, 16, kTransposed),
      slots(1 << 20, 1 << 20, 16),
      slots(1 << 16, 1 << 16, 256),
  };
  return {kSmoke, kVerify, kBench};
}

Cases SpmvBsr::cases() {
  static const std::array kSmoke = {
      blocks(10, 8, 52, 4, 4),
      blocks(5, 7, 21, 3, 2, kWideIndices | kHasAdded, 2, 1, 0.5, -2),
  };
  // Blocks that are less than a warp, as much, more; whole vectors and not, of one row, of one
  // column, of more columns than lanes; rows of blocks of each kind; unaligned, gaps.
  static const std::array kVerify = {
      blocks(1, 1, 1, 1, 1),
      blocks(5, 8, 0, 2, 3, kHasAdded),
      blocks(0, 8, 0, 2, 2),
      blocks(30, 40, 203, 1, 1),
      blocks(9, 8, 50, 2, 2, kHasAdded, 0, 0, -1, 0),
      blocks(9, 8, 49, 3, 3),
      blocks(6, 8, 45, 8, 4, kWideIndices),
      blocks(5, 4, 16, 8, 8, kHasAdded, 0, 0, 2, 0.5),
      blocks(4, 4, 19, 16, 16),
      blocks(2, 4, 7, 32, 32),
      blocks(3, 4, 11, 31, 33),
      blocks(3, 4, 8, 2, 40),
      blocks(2, 3, 5, 1, 132),
      blocks(3, 4, 8, 40, 1),
      blocks(6, 8, 45, 4, 8, 0, 0, 1),
      blocks(6, 8, 45, 4, 8, kGaps, 3),
      blocks(6, 8, 45, 4, 8, kTransposed),
  };
  // 2^24 values each.
  static const std::array kBench = {
      blocks(1 << 18, 1 << 18, 1 << 20, 4, 4),
      blocks(1 << 16, 1 << 16, 1 << 18, 8, 8),
      blocks(1 << 12, 1 << 12, 1 << 14, 32, 32),
  };
  return {kSmoke, kVerify, kBench};
}

}  // namespace ws::spmv
