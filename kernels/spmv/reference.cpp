// What sparse products of compressed rows compute, in double precision; their shapes, inputs, cost
// and tolerance, and the problems to verify and to time. Of other formats: formats_reference.cpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/spmv/reference.hpp"

namespace ws::spmv {
namespace {

enum Operand : uint8_t { kValuesOf, kCrow, kCol, kX, kAddedOrOut, kOut };  // kX is b, too

void set_matrix(const Problem& problem, int64_t columns, Matrix& matrix) {
  matrix.dtype = problem.dtype();
  matrix.index = problem.tensor(kCrow).dtype;
  matrix.rows = problem.tensor(kCrow).extent(0) - 1;
  matrix.columns = columns;
  matrix.entries = problem.tensor(kCol).extent(0);
  matrix.values = problem.tensor(kValuesOf).data;
  matrix.crow = problem.tensor(kCrow).data;
  matrix.col = problem.tensor(kCol).data;
  matrix.value_step = step_of(problem.tensor(kValuesOf));
  matrix.crow_step = step_of(problem.tensor(kCrow));
  matrix.col_step = step_of(problem.tensor(kCol));
}

// What both operations ask for of A, and of what it is multiplied with.
void check(const Problem& problem, int rank) {
  const Tensor& values = problem.tensor(kValuesOf);
  const Tensor& crow = problem.tensor(kCrow);
  const Tensor& col = problem.tensor(kCol);
  const Tensor& x = problem.tensor(kX);
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(concatenate(problem.operation->name, " takes ", what, ": values are ",
                                      values, ", crow ", crow, ", col ", col, ", ",
                                      rank == 1 ? "x " : "b ", x));
  };
  if (values.rank != 1 || crow.rank != 1 || col.rank != 1 || x.rank != rank) [[unlikely]]
    fail(concatenate("values, crow and col of one dimension and ",
                     rank == 1 ? "a vector" : "a matrix"));
  if (!kValues.has(values.dtype) || x.dtype != values.dtype) [[unlikely]]
    fail(concatenate("one dtype of ", to_string(kValues)));
  if (!kIndices.has(crow.dtype) || col.dtype != crow.dtype) [[unlikely]]
    fail("crow and col of one dtype, i32 or i64");
  if (crow.extent(0) < 1) [[unlikely]]
    fail("a crow of an element more than there are rows");
  if (values.extent(0) != col.extent(0)) [[unlikely]]
    fail("a value and a column for each entry");
}

// ---- Inputs -------------------------------------------------------------------------------------

void fill_operand(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == kCrow) {
    fill_starts(tensor, problem.tensor(kCol).extent(0));
  } else if (index == kCol) {
    const auto columns = static_cast<double>(problem.tensor(kX).extent(0));
    fill_with(tensor, [&](int64_t j) {
      return std::floor(random_uniform(seed, static_cast<uint64_t>(j)) * columns);
    });
  } else {
    fill_normal(tensor, seed);
  }
}

void make_matrix(const Case& chosen, DType dtype, int64_t options, Problem& problem) {
  const auto [rows, columns, entries, unused1, unused2, unused3, unused4, unused5] = chosen.extents;
  require(entries == 0 || columns > 0, entries, " entries have no column to be in");
  const DType index = (options & kWideIndices) != 0 ? DType::kI64 : DType::kI32;
  problem.tensor(kValuesOf) = Tensor::dense(dtype, {entries});
  problem.tensor(kCrow) = Tensor::dense(index, {rows + 1});
  problem.tensor(kCol) = Tensor::dense(index, {entries});
  if ((options & kGaps) == 0) return;
  for (const int i : {kValuesOf, kCrow, kCol}) problem.tensor(i).strides[0] = 2 + i;
}

// ---- References ---------------------------------------------------------------------------------

// f(column, value) of each entry of a row, which are right.
template <class F>
void for_entries(const Problem& problem, int64_t row, const F& f) {
  const Tensor& crow = problem.tensor(kCrow);
  const auto end = static_cast<int64_t>(element(crow, row + 1));
  for (auto j = static_cast<int64_t>(element(crow, row)); j < end; ++j) {
    f(static_cast<int64_t>(element(problem.tensor(kCol), j)),
      element(problem.tensor(kValuesOf), j));
  }
}

int64_t longest_row_of(const Problem& problem) {
  return longest_row(problem.tensor(kCrow).extent(0) - 1, problem.tensor(kCol).extent(0));
}

}  // namespace

// ---- What formats share -------------------------------------------------------------------------

int64_t step_of(const Tensor& vector) { return vector.extent(0) <= 1 ? 1 : vector.stride(0); }

// Where rows begin. How long they are is told by the remainder of entries and rows, so that a
// problem's shape says it all: 0 rows of one length, 1 a row that has all but a few, 2 lengths by a
// power law, 3 three of four rows without entries, 4 some entries left behind the last row; else
// uniform at random.
std::vector<int64_t> starts_of(int64_t rows, int64_t entries) {
  enum : uint8_t { kEven, kOneRow, kPowerLaw, kManyEmpty, kSomeLeft };
  std::vector<int64_t> starts(static_cast<size_t>(rows) + 1);
  if (rows == 0) return starts;
  const int64_t way = entries % rows;
  const auto weight = [&](int64_t row) {
    const double u = random_uniform(7, static_cast<uint64_t>(row));
    if (way == kEven) return 1.0;
    if (way == kOneRow) return row == rows / 2 ? 100.0 * static_cast<double>(rows) : u;
    if (way == kPowerLaw) return std::pow(u + 1e-9, -0.8);
    if (way == kManyEmpty) return std::max(u - 0.75, 0.0);
    return u;
  };
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) total += weight(row);
  if (total == 0) total = 1;
  if (way == kSomeLeft) total *= 1.25;
  double before = 0;
  for (int64_t row = 0; row < rows; ++row) {
    before += weight(row);
    const auto end =
        static_cast<int64_t>(std::round(before / total * static_cast<double>(entries)));
    starts[static_cast<size_t>(row) + 1] = std::min(end, entries);
  }
  return starts;
}

int64_t longest_row(int64_t rows, int64_t entries) {
  const std::vector<int64_t> starts = starts_of(rows, entries);
  int64_t longest = 0;
  for (size_t row = 0; row + 1 < starts.size(); ++row) {
    longest = std::max(longest, starts[row + 1] - starts[row]);
  }
  return longest;
}

void fill_starts(const Tensor& crow, int64_t entries) {
  const std::vector<int64_t> starts = starts_of(crow.extent(0) - 1, entries);
  fill_with(crow, [&](int64_t i) { return static_cast<double>(starts[static_cast<size_t>(i)]); });
}

void set_vectors(const Problem& problem, Vectors& vectors) {
  const Tensor& x = problem["x"];
  const Tensor& added = problem["added"];
  const Tensor& y = problem["y"];
  vectors.alpha = problem.number("alpha");
  vectors.beta = problem.number("beta");
  vectors.x = x.data;
  vectors.x_step = x.stride(0);
  if (added.exists() && vectors.beta != 0) {
    vectors.added = added.data;
    vectors.added_step = added.stride(0);
  }
  vectors.y = y.data;
  vectors.y_step = y.stride(0);
}

void make_vectors(Problem& problem, DType dtype, int64_t columns, int64_t rows, bool has_added,
                  int64_t step) {
  problem["x"] = Tensor::dense(dtype, {columns});
  if (has_added) problem["added"] = Tensor::dense(dtype, {rows});
  problem["y"] = Tensor::dense(dtype, {rows});
  for (const char* const name : {"x", "added", "y"}) {
    if (problem[name].exists()) problem[name].strides[0] = std::max<int64_t>(step, 1);
  }
}

void infer_result(Problem& problem, int64_t rows) {
  const Tensor& added = problem["added"];
  require(!added.exists() ||
              (added.rank == 1 && added.extent(0) == rows && added.dtype == problem.dtype()),
          problem.operation->name, " takes an 'added' of ", rows, " elements of ",
          to_string(problem.dtype()), ", not ", added);
  problem["y"] = Tensor::dense(problem.dtype(), {rows});
}

double completed(const Problem& problem, int64_t row, double sum) {
  const Tensor& added = problem["added"];
  const double beta = problem.number("beta");
  sum *= problem.number("alpha");
  return added.exists() && beta != 0 ? sum + beta * element(added, row) : sum;
}

// Outputs are sums of n products of standard normal numbers, n the longest row's length: of that
// size their errors are told. They are rounded once; the sum before that errs by its last bits.
Tolerance tolerance_of_sums(DType dtype, int64_t n, double scale, double added) {
  const double root = std::sqrt(static_cast<double>(n));
  const bool is_wide = dtype == DType::kF64;
  const double rounding = std::ldexp(1.0, dtype == DType::kBf16  ? -8
                                          : dtype == DType::kF16 ? -11
                                          : is_wide              ? -53
                                                                 : -24);
  const double accumulation = std::ldexp(1.0, is_wide ? -52 : -23) * (4 + root);
  return {.worst = 1.01 * rounding + 8 * accumulation,
          .floor = scale * root + added + std::ldexp(1.0, -14)};
}

Tolerance tolerance_of_result(const Problem& problem, int64_t n) {
  const bool adds = problem["added"].exists();
  return tolerance_of_sums(problem.dtype(), n, std::abs(problem.number("alpha")),
                           adds ? std::abs(problem.number("beta")) : 0);
}

// ---- spmv_csr -----------------------------------------------------------------------------------

VectorCall SpmvCsr::call(const Problem& problem) {
  VectorCall call;
  set_matrix(problem, problem.tensor(kX).extent(0), call);
  set_vectors(problem, call);
  return call;
}

void SpmvCsr::infer(Problem& problem) {
  check(problem, 1);
  infer_result(problem, problem.tensor(kCrow).extent(0) - 1);
}

void SpmvCsr::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t options = chosen.extents[4];
  make_matrix(chosen, dtype, options, problem);
  make_vectors(problem, dtype, chosen.extents[1], chosen.extents[0], (options & kHasAdded) != 0,
               chosen.extents[3]);
}

Cost SpmvCsr::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(problem.tensor(kCol).extent(0))};
}

Tolerance SpmvCsr::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of_result(problem, longest_row_of(problem));
}

int64_t SpmvCsr::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(kCrow).extent(0) - 1;
}

void SpmvCsr::fill(const Problem& problem, int index, uint64_t seed) {
  fill_operand(problem, index, seed);
}

// Slices are rows.
void SpmvCsr::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  for (int64_t row = slice.first; row < slice.last; ++row) {
    double sum = 0;
    for_entries(problem, row, [&](int64_t column, double value) {
      sum += value * element(problem.tensor(kX), column);
    });
    expected[kOut][row - slice.first] = completed(problem, row, sum);
  }
}

// ---- spmm_csr -----------------------------------------------------------------------------------

MatrixCall SpmmCsr::call(const Problem& problem) {
  const Tensor& b = problem.tensor(kX);
  const Tensor& c = problem.tensor(kAddedOrOut);
  MatrixCall call;
  set_matrix(problem, b.extent(0), call);
  call.width = b.extent(1);
  call.b = b.data;
  call.c = c.data;
  call.b_row = b.stride(0);
  call.b_column = b.stride(1);
  call.c_row = c.stride(0);
  call.c_column = c.stride(1);
  return call;
}

void SpmmCsr::infer(Problem& problem) {
  check(problem, 2);
  problem.tensor(kAddedOrOut) = Tensor::dense(
      problem.dtype(), {problem.tensor(kCrow).extent(0) - 1, problem.tensor(kX).extent(1)});
}

void SpmmCsr::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [rows, depth, entries, width, options, unused1, unused2, unused3] = chosen.extents;
  make_matrix(chosen, dtype, options, problem);
  Tensor& b = problem.tensor(kX);
  b = Tensor::dense(dtype, {depth, width});
  if ((options & kTransposed) != 0) {
    b.strides[0] = 1;
    b.strides[1] = std::max<int64_t>(depth, 1) + chosen.padding;
  } else {
    b.strides[0] += chosen.padding;
  }
  Tensor& c = problem.tensor(kAddedOrOut);
  c = Tensor::dense(dtype, {rows, width});
  c.strides[0] += chosen.padding;
}

Cost SpmmCsr::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(problem.tensor(kCol).extent(0)) *
                   static_cast<double>(problem.tensor(kX).extent(1))};
}

Tolerance SpmmCsr::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of_sums(problem.dtype(), longest_row_of(problem), 1, 0);
}

int64_t SpmmCsr::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(kCrow).extent(0) - 1;
}

void SpmmCsr::fill(const Problem& problem, int index, uint64_t seed) {
  fill_operand(problem, index, seed);
}

// Slices are rows.
void SpmmCsr::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& b = problem.tensor(kX);
  const int64_t width = b.extent(1);
  std::fill_n(expected[kAddedOrOut], (slice.last - slice.first) * width, 0.0);
  for (int64_t row = slice.first; row < slice.last; ++row) {
    double* const c = expected[kAddedOrOut] + (row - slice.first) * width;
    for_entries(problem, row, [&](int64_t column, double value) {
      for (int64_t n = 0; n < width; ++n) c[n] += value * element(b, column * width + n);
    });
  }
}

// ---- sddmm_csr ----------------------------------------------------------------------------------

// Tensors stand where those of spmm_csr do: a for values, and values for c.
SampledCall SddmmCsr::call(const Problem& problem) {
  const Tensor& a = problem.tensor(kValuesOf);
  const Tensor& b = problem.tensor(kX);
  const Tensor& values = problem.tensor(kAddedOrOut);
  SampledCall call;
  set_matrix(problem, b.extent(0), call);
  call.values = values.data;
  call.value_step = step_of(values);
  call.width = a.extent(1);
  call.left = a.data;
  call.right = b.data;
  call.result = values.data;
  call.left_row = a.stride(0);
  call.left_column = a.stride(1);
  call.right_row = b.stride(0);
  call.right_column = b.stride(1);
  return call;
}

void SddmmCsr::infer(Problem& problem) {
  const Tensor& a = problem.tensor(kValuesOf);
  const Tensor& crow = problem.tensor(kCrow);
  const Tensor& col = problem.tensor(kCol);
  const Tensor& b = problem.tensor(kX);
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(concatenate(problem.operation->name, " takes ", what, ": a is ", a,
                                      ", crow ", crow, ", col ", col, ", b ", b));
  };
  if (a.rank != 2 || b.rank != 2 || crow.rank != 1 || col.rank != 1) [[unlikely]]
    fail("crow and col of one dimension and two matrices");
  if (!kValues.has(a.dtype) || b.dtype != a.dtype) [[unlikely]]
    fail(concatenate("one dtype of ", to_string(kValues)));
  if (!kIndices.has(crow.dtype) || col.dtype != crow.dtype) [[unlikely]]
    fail("crow and col of one dtype, i32 or i64");
  if (crow.extent(0) != a.extent(0) + 1) [[unlikely]]
    fail("a crow of an element more than a has rows");
  if (a.extent(1) != b.extent(1)) [[unlikely]]
    fail("a and b of as many columns");
  problem.tensor(kAddedOrOut) = Tensor::dense(a.dtype, {col.extent(0)});
}

void SddmmCsr::make(const Case& chosen, DType dtype, Problem& problem) {
  SpmmCsr::make(chosen, dtype, problem);
  std::swap(problem.tensor(kValuesOf), problem.tensor(kAddedOrOut));
}

Cost SddmmCsr::cost(const Problem& problem) {
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(problem.tensor(kCol).extent(0)) *
                   static_cast<double>(problem.tensor(kX).extent(1))};
}

Tolerance SddmmCsr::tolerance(const Problem& problem, const Parameter& /*output*/) {
  return tolerance_of_sums(problem.dtype(), std::max<int64_t>(problem.tensor(kX).extent(1), 1), 1,
                           0);
}

int64_t SddmmCsr::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(kCol).extent(0);
}

void SddmmCsr::fill(const Problem& problem, int index, uint64_t seed) {
  fill_operand(problem, index, seed);
}

// Slices are entries.
void SddmmCsr::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& a = problem.tensor(kValuesOf);
  const Tensor& crow = problem.tensor(kCrow);
  const Tensor& b = problem.tensor(kX);
  const int64_t rows = a.extent(0);
  const int64_t width = a.extent(1);
  int64_t row = 0;
  for (int64_t j = slice.first; j < slice.last; ++j) {
    while (row < rows && element(crow, row + 1) <= static_cast<double>(j)) ++row;
    const auto column = static_cast<int64_t>(element(problem.tensor(kCol), j));
    double sum = 0;
    for (int64_t n = 0; row < rows && n < width; ++n) {
      sum += element(a, row * width + n) * element(b, column * width + n);
    }
    expected[kAddedOrOut][j - slice.first] = sum;
  }
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

Case vector(int64_t rows, int64_t columns, int64_t entries, int64_t options = 0, int64_t step = 0,
            int offset = 0, double alpha = 1, double beta = 1) {
  return {.extents = {rows, columns, entries, step, options},
          .offset = offset,
          .attributes = {Value(alpha), Value(beta)}};
}
Case product(int64_t rows, int64_t depth, int64_t entries, int64_t width, int64_t options = 0,
             int64_t padding = 0, int offset = 0) {
  return {.extents = {rows, depth, entries, width, options}, .offset = offset, .padding = padding};
}

}  // namespace

Cases SpmvCsr::cases() {
  static const std::array kSmoke = {
      vector(40, 30, 202),
      vector(9, 17, 72, kWideIndices | kHasAdded, 2, 1, 0.5, -2),
      vector(300, 64, 300 * 20),
  };
  // Rows of each kind; means of 1 to 32 lanes; a tile's 2044 items, one less, one more; a row over
  // several tiles; tiles without an entry; no entries, no columns, no rows; unaligned; steps.
  static const std::array kVerify = {
      vector(1, 1, 1),
      vector(5, 8, 0),
      vector(5, 0, 0, kHasAdded),
      vector(0, 8, 0),
      vector(1, 40, 300),
      vector(300, 20, 300),
      vector(33, 64, 33 * 4 + 3),
      vector(33, 64, 33 * 4 + 5, kGaps),
      vector(70, 64, 70 * 9 + 5, kHasAdded, 0, 0, -1, 0),
      vector(65, 100, 65 * 30, kWideIndices),
      vector(9, 300, 9 * 70 + 6, 0, 0, 1),
      vector(100, 50, 1944),
      vector(100, 50, 1943),
      vector(101, 50, 1944, kWideIndices, 0, 2),
      vector(2000, 50, 203),
      vector(20, 500, 20 * 300 + 1, kHasAdded, 3, 0, 2, 0.5),
      vector(400, 500, 400 * 16 + 2),
      vector(300, 500, 300 * 9 + 4, kWideIndices, 2, 3),
  };
  // 16 a row; a power law; one row that has nearly all.
  static const std::array kBench = {
      vector(1 << 20, 1 << 20, 16 << 20),       vector(1 << 20, 1 << 20, (16 << 20) + 2),
      vector(1 << 20, 1 << 20, (16 << 20) + 1), vector(1 << 20, 1 << 20, 3 << 20),
      vector(1 << 16, 1 << 16, 1 << 24),
  };
  return {kSmoke, kVerify, kBench};
}

Cases SpmmCsr::cases() {
  static const std::array kSmoke = {
      product(20, 30, 102, 24),
      product(9, 17, 72, 5, kWideIndices | kTransposed, 2, 1),
  };
  // Around the 32 entries of a warp's load and the 512 bytes of a slice; whole vectors and not;
  // over some tiles of 1024 items a long row, rows without entries, entries of no row.
  static const std::array kVerify = {
      product(1, 1, 1, 1),
      product(5, 8, 0, 16),
      product(0, 8, 0, 16),
      product(5, 8, 20, 0),
      product(7, 40, 7 * 31 + 1, 8),
      product(12, 40, 12 * 33 + 2, 136),
      product(9, 30, 9 * 8 + 3, 256, kWideIndices, 8),
      product(33, 30, 33 * 4 + 4, 264, 0, 16),
      product(6, 70, 6 * 64, 128),
      product(21, 30, 21 * 5 + 5, 33, kGaps),
      product(10, 30, 63, 16, 0, 1),
      product(10, 30, 63, 16, kTransposed),
      product(30, 40, 30 * 60 + 1, 3),
      product(500, 40, 500 * 4 + 3, 8),
      product(12, 40, 12 * 100 + 1, 128),
      product(40, 30, 40 * 40 + 4, 1, kWideIndices),
  };
  static const std::array kBench = {
      product(1 << 18, 1 << 18, 16 << 18, 64),
      product(1 << 18, 1 << 18, (16 << 18) + 2, 128),
  };
  return {kSmoke, kVerify, kBench};
}

Cases SddmmCsr::cases() {
  static const std::array kSmoke = {
      product(20, 30, 102, 24),
      product(9, 17, 72, 5, kWideIndices | kTransposed, 2, 1),
  };
  // Around the four entries of a step and the 32 of a group of lanes, and their 128 bytes of a row;
  // whole vectors and not; long rows, rows without entries, entries of no row.
  static const std::array kVerify = {
      product(1, 1, 1, 1),
      product(5, 8, 0, 16),
      product(5, 8, 20, 0),
      product(7, 40, 7 * 31 + 1, 8),
      product(12, 40, 12 * 33 + 2, 136),
      product(9, 30, 9 * 8 + 3, 64, kWideIndices, 8),
      product(33, 30, 33 * 4 + 4, 72, 0, 16),
      product(21, 30, 21 * 5 + 5, 33, kGaps),
      product(21, 30, 21 * 5 + 4, 32, kGaps),
      product(10, 30, 63, 16, 0, 1),
      product(10, 30, 63, 16, kTransposed),
      product(500, 40, 203, 8),
  };
  static const std::array kBench = {
      product(1 << 18, 1 << 18, 16 << 18, 64),
      product(1 << 18, 1 << 18, (16 << 18) + 2, 128),
  };
  return {kSmoke, kVerify, kBench};
}

}  // namespace ws::spmv
