// What gemm computes, in double precision; its shapes, cost and tolerance, and the problems to
// verify and to time.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/gemm/operations.hpp"

namespace ws::gemm {
namespace {

using enum Gemm::Layout;

Gemm::Layout layout_of(const Problem& problem) { return problem.choice<Gemm::Layout>("layout"); }

Matrix matrix(void* data, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  // A single run has no next one: the largest power of two leaves every alignment possible.
  constexpr int64_t kAnyLeading = 1 << 20;
  Matrix matrix{.data = data, .row = row, .column = column};
  const auto lies = [&](Contiguous contiguous, int64_t runs, int64_t length, int64_t leading) {
    matrix.contiguous = contiguous;
    matrix.runs = runs;
    matrix.length = length;
    matrix.leading = runs <= 1 ? kAnyLeading : leading;
  };
  if (column == 1 || columns <= 1) {
    lies(Contiguous::kColumns, rows, columns, row);
  } else if (row == 1 || rows <= 1) {
    lies(Contiguous::kRows, columns, rows, column);
  } else {
    lies(Contiguous::kNeither, columns, rows, 0);
  }
  return matrix;
}

}  // namespace

Matrix matrix_of(const Tensor& tensor, bool transposed) {
  const int row = transposed ? 1 : 0;
  return matrix(tensor.data, tensor.extent(row), tensor.extent(1 - row), tensor.stride(row),
                tensor.stride(1 - row));
}

Call transposed(const Call& call) {
  const auto turned = [](Matrix matrix) {
    std::swap(matrix.row, matrix.column);
    if (matrix.contiguous != Contiguous::kNeither) {
      matrix.contiguous =
          matrix.contiguous == Contiguous::kRows ? Contiguous::kColumns : Contiguous::kRows;
    }
    return matrix;
  };
  return {.dtype = call.dtype,
          .m = call.n,
          .n = call.m,
          .k = call.k,
          .a = turned(call.b),
          .b = turned(call.a),
          .c = turned(call.c)};
}

Call Gemm::call(const Problem& problem) {
  const Layout layout = layout_of(problem);
  const Tensor& c = problem.tensor(2);
  const bool a_transposed = is_a_transposed(layout);
  const bool b_transposed = is_b_transposed(layout);
  const Call call{.dtype = c.dtype,
                  .m = c.extent(0),
                  .n = c.extent(1),
                  .k = problem.tensor(0).extent(a_transposed ? 0 : 1),
                  .a = matrix_of(problem.tensor(0), a_transposed),
                  .b = matrix_of(problem.tensor(1), b_transposed),
                  .c = matrix_of(c, false)};
  // An output whose columns are contiguous is the row-major output of C^T = B^T A^T.
  if (call.c.contiguous == Contiguous::kRows) return transposed(call);
  return call;
}

// ---- Shapes -----------------------------------------------------------------------------------

void Gemm::infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const Layout layout = layout_of(problem);
  // Not require(): describing tensors that fit would cost more than all the rest of a call.
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(concatenate("gemm ", what, ", got ", a, " and ", b));
  };
  if (a.rank != 2 || b.rank != 2) [[unlikely]]
    fail("takes matrices");
  if (a.dtype != b.dtype) [[unlikely]]
    fail("takes one dtype");
  if (!kFloats.has(a.dtype)) [[unlikely]]
    fail("takes f32, f16 and bf16");
  const bool a_transposed = is_a_transposed(layout);
  const bool b_transposed = is_b_transposed(layout);
  const int64_t k = a.extent(a_transposed ? 0 : 1);
  const int64_t k_of_b = b.extent(b_transposed ? 1 : 0);
  if (k != k_of_b) [[unlikely]] {
    throw InvalidArgument(concatenate("gemm with layout ", kLayouts[static_cast<size_t>(layout)],
                                      ": A ", a, " has K = ", k, " and B ", b,
                                      " has K = ", k_of_b));
  }
  problem.tensor(2) =
      Tensor::dense(a.dtype, {a.extent(a_transposed ? 1 : 0), b.extent(b_transposed ? 0 : 1)});
}

void Gemm::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t m = chosen.extents[0];
  const int64_t n = chosen.extents[1];
  const int64_t k = chosen.extents[2];
  const Layout layout = layout_of(problem);
  problem.tensor(0) =
      is_a_transposed(layout) ? Tensor::dense(dtype, {k, m}) : Tensor::dense(dtype, {m, k});
  problem.tensor(1) =
      is_b_transposed(layout) ? Tensor::dense(dtype, {n, k}) : Tensor::dense(dtype, {k, n});
  infer(problem);
  for (int i = 0; i < 3; ++i) problem.tensor(i).strides[0] += chosen.padding;
}

// ---- Cost, tolerance, reference ---------------------------------------------------------------

Cost Gemm::cost(const Problem& problem) {
  const Call call = Gemm::call(problem);
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  return {.bytes = (m * k + k * n + m * n) * static_cast<double>(size_of(call.dtype)),
          .flops = 2 * m * n * k};
}

namespace {
// Half the distance of two neighbours around 1.
double unit_of(DType dtype) {
  return std::ldexp(1.0, dtype == DType::kBf16 ? -8 : dtype == DType::kF16 ? -11 : -24);
}
}  // namespace

// Outputs are sums of K products of standard normal numbers: their size is sqrt(K). They are
// rounded once; the f32 sum before that errs by its last bits, which tensor cores cut off (a bias
// that grows with K) where FMAs round (noise that grows with its root).
Tolerance Gemm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const auto k = static_cast<double>(call(problem).k);
  const double rounding = unit_of(problem.dtype());
  const double accumulation = std::ldexp(1.0, -23) * (4 + std::sqrt(k) + k / 32);
  return {.relative = rounding + accumulation,
          .worst = 1.01 * rounding + 8 * accumulation,
          .floor = std::sqrt(k) + std::ldexp(1.0, -14)};
}

// Each of K additions rounds a partial sum of size sqrt(k): together that is an error of 0.3
// sqrt(K) units of the result, of single elements up to 1.5 sqrt(K). Twice that is allowed, which
// at K = 4096 is still half of what eight missing products would be.
Tolerance Gemm::tolerance_in(const Problem& problem, const Parameter& output, DType accumulate) {
  Tolerance allowed = tolerance(problem, output);
  const double noise = unit_of(accumulate) * std::sqrt(static_cast<double>(call(problem).k));
  allowed.relative += 0.6 * noise;
  allowed.worst += 3 * noise;
  return allowed;
}

int64_t Gemm::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(2).extent(0);
}

void Gemm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  // Transposes resolved, but never C's: slices are rows of C.
  const Layout layout = layout_of(problem);
  const Matrix a = matrix_of(problem.tensor(0), is_a_transposed(layout));
  const Matrix b = matrix_of(problem.tensor(1), is_b_transposed(layout));
  const int64_t n = problem.tensor(2).extent(1);
  const int64_t k = problem.tensor(0).extent(is_a_transposed(layout) ? 0 : 1);
  const auto rows = slice.last - slice.first;
  double* const c = expected[2];
  std::fill(c, c + rows * n, 0.0);
  // B is widened once for all rows of the slice, a panel of K at a time so that it stays in cache.
  constexpr int64_t kPanel = 32;
  std::vector<double> panel(static_cast<size_t>(kPanel * n));
  with_type<kFloats>(problem.dtype(), [&]<class T>() {
    for (int64_t first = 0; first < k; first += kPanel) {
      const int64_t depth = std::min(kPanel, k - first);
      for (int64_t p = 0; p < depth; ++p) {
        const T* from = b.as<const T>() + (first + p) * b.row;
        for (int64_t j = 0; j < n; ++j) {
          panel[static_cast<size_t>(p * n + j)] = to_float(from[j * b.column]);
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        const T* from = a.as<const T>() + (slice.first + i) * a.row;
        for (int64_t p = 0; p < depth; ++p) {
          const double factor = to_float(from[(first + p) * a.column]);
          const double* row = &panel[static_cast<size_t>(p * n)];
          for (int64_t j = 0; j < n; ++j) c[i * n + j] += factor * row[j];
        }
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr std::array kSmoke = {shape(72, 136, 72, kNn), shape(65, 33, 40, kTt, 3),
                               shape(19, 40, 24, kNn), shape(32, 48, 64, kNn)};

// Around the tiles of the rungs: 64, 128 and 256 rows or columns, 64 deep; rows 16-byte aligned
// (padding 7 or none), 8, 4, 2 (odd); pointers that are not.
constexpr std::array kVerify = {
    shape(1, 1, 1, kNn),
    shape(3, 5, 0, kNn),
    shape(0, 8, 8, kNn),
    shape(1, 300, 129, kNt),
    shape(300, 1, 129, kTn),
    shape(2, 2, 1000, kTt),
    shape(64, 64, 64, kNn),
    shape(128, 256, 64, kNn),
    shape(128, 256, 128, kTt),
    shape(127, 255, 63, kNn, 1),
    shape(127, 255, 63, kNt, 1),
    shape(127, 255, 63, kTn, 1),
    shape(127, 255, 63, kTt, 1),
    shape(129, 257, 65, kNn, 7),
    shape(129, 257, 65, kNt, 7),
    shape(129, 257, 65, kTn, 7),
    shape(129, 257, 65, kTt, 7),
    shape(129, 257, 65, kNn),
    shape(129, 257, 65, kTt),
    shape(130, 258, 66, kNt),
    shape(132, 260, 68, kTn),
    shape(304, 520, 200, kNn),
    shape(304, 520, 200, kNt),
    shape(304, 520, 200, kTn),
    shape(304, 520, 200, kTt),
    shape(240, 496, 144, kNn),
    shape(248, 504, 136, kTt),
    shape(160, 96, 200, kNn, 0, 1),
    shape(160, 96, 200, kNt, 0, 2),
    shape(160, 96, 200, kTn, 0, 4),
    shape(160, 96, 200, kTt, 0, 8),
    shape(191, 97, 331, kNn),
};

constexpr std::array kBench = {
    shape(1024, 1024, 1024, kNn), shape(1024, 1024, 1024, kNt), shape(2048, 2048, 2048, kNn),
    shape(2048, 2048, 2048, kNt), shape(4096, 4096, 4096, kNn), shape(4096, 4096, 4096, kNt),
    shape(4096, 4096, 4096, kTn), shape(4096, 4096, 4096, kTt), shape(8192, 8192, 8192, kNn),
    shape(8192, 8192, 8192, kNt), shape(8192, 8192, 8192, kTn), shape(8192, 8192, 8192, kTt),
    shape(4097, 4095, 4099, kNn),
};

}  // namespace

Cases Gemm::cases() { return {kSmoke, kVerify, kBench}; }

}  // namespace ws::gemm
