// What gemm and bmm compute, in double precision; their shapes, cost and tolerance, and the
// problems to verify and to time.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/gemm/reference.hpp"

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
  const int row = tensor.rank - (transposed ? 1 : 2);
  const int column = tensor.rank - (transposed ? 2 : 1);
  Matrix found = matrix(tensor.data, tensor.extent(row), tensor.extent(column), tensor.stride(row),
                        tensor.stride(column));
  if (tensor.rank == 3 && tensor.extent(0) > 1) found.batch = tensor.stride(0);
  return found;
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
          .c = turned(call.c),
          .tf32 = call.tf32};
}

Call Gemm::call(const Problem& problem) {
  const Layout layout = layout_of(problem);
  const Tensor& c = problem.tensor(2);
  const bool a_transposed = is_a_transposed(layout);
  const bool b_transposed = is_b_transposed(layout);
  const Call call{
      .dtype = c.dtype,
      .m = c.extent(0),
      .n = c.extent(1),
      .k = problem.tensor(0).extent(a_transposed ? 0 : 1),
      .a = matrix_of(problem.tensor(0), a_transposed),
      .b = matrix_of(problem.tensor(1), b_transposed),
      .c = matrix_of(c, false),
      .tf32 = c.dtype == DType::kF32 && problem.choice<Precision>("precision") == Precision::kTf32};
  // An output whose columns are contiguous is the row-major output of C^T = B^T A^T.
  if (call.c.contiguous == Contiguous::kRows) return transposed(call);
  return call;
}

Bmm::Call Bmm::call(const Problem& problem) {
  const Tensor& c = problem.tensor(2);
  const DType dtype = problem.tensor(0).dtype;
  const gemm::Call first{
      .dtype = dtype,
      .m = c.extent(1),
      .n = c.extent(2),
      .k = problem.tensor(0).extent(2),
      .a = matrix_of(problem.tensor(0), false),
      .b = matrix_of(problem.tensor(1), false),
      .c = matrix_of(c, false),
      .tf32 = dtype == DType::kF32 &&
              problem.choice<Gemm::Precision>("precision") == Gemm::Precision::kTf32};
  return {first.c.contiguous == Contiguous::kRows ? transposed(first) : first, c.extent(0),
          c.dtype};
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

void check_batches(std::string_view name, const Tensor& a, const Tensor& b) {
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(concatenate(name, " ", what, ", got ", a, " and ", b));
  };
  if (a.rank != 3 || b.rank != 3) [[unlikely]]
    fail("takes batches of matrices");
  if (a.dtype != b.dtype) [[unlikely]]
    fail("takes batches of one dtype");
  if (!kFloats.has(a.dtype)) [[unlikely]]
    fail("takes f32, f16 and bf16");
  if (a.extent(0) != b.extent(0)) [[unlikely]]
    fail(concatenate("takes batches of one size, not ", a.extent(0), " and ", b.extent(0)));
  if (a.extent(2) != b.extent(1)) [[unlikely]]
    fail(concatenate("takes one K, not ", a.extent(2), " and ", b.extent(1)));
}

void Bmm::infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  check_batches("bmm", a, b);
  const bool wide = !problem.attribute("out_dtype").is_absent();
  problem.tensor(2) =
      Tensor::dense(wide ? DType::kF32 : a.dtype, {a.extent(0), a.extent(1), b.extent(2)});
}

void Bmm::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, m, n, k, views, unused1, unused2, unused3] = chosen.extents;
  const auto lay = [&](int i, int64_t rows, int64_t columns, int turned, int expanded) {
    Tensor& tensor = problem.tensor(i);
    tensor = Tensor::dense(i == 2 ? tensor.dtype : dtype, {batch, rows, columns});
    const bool transposed = (views & turned) != 0;
    const bool interleaved = (views & kInterleaved) != 0;
    const int64_t length = (transposed ? rows : columns) + chosen.padding;
    const int64_t leading = interleaved ? length * batch : length;
    const bool one = (views & expanded) != 0;
    const int64_t whole = length * (transposed ? columns : rows);
    tensor.strides = {one           ? 0
                      : interleaved ? length
                                    : whole,
                      transposed ? 1 : leading, transposed ? leading : 1};
  };
  lay(0, m, k, kATransposed, kAExpanded);
  lay(1, k, n, kBTransposed, kBExpanded);
  infer(problem);
  lay(2, m, n, kCTransposed, 0);
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

Cost Bmm::cost(const Problem& problem) {
  const Call call = Bmm::call(problem);
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  const auto batch = static_cast<double>(call.batch);
  const auto copies = [&](const Matrix& matrix) { return matrix.batch == 0 ? 1 : batch; };
  return {.bytes = (m * k * copies(call.a) + k * n * copies(call.b)) *
                       static_cast<double>(size_of(call.dtype)) +
                   m * n * batch * static_cast<double>(size_of(call.out_dtype)),
          .flops = 2 * batch * m * n * k};
}

namespace {

// Rows [slice.first, slice.last) of A B, to c.
template <class T>
void multiply_rows(const Matrix& a, const Matrix& b, int64_t n, int64_t k, Slice slice, double* c) {
  const int64_t rows = slice.last - slice.first;
  std::fill(c, c + rows * n, 0.0);
  // B is widened once for all rows of the slice, a panel of K at a time so that it stays in cache.
  constexpr int64_t kPanel = 32;
  std::vector<double> panel(static_cast<size_t>(kPanel * n));
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
}

}  // namespace

void reference_product(DType dtype, const Matrix& a, const Matrix& b, int64_t n, int64_t k,
                       Slice slice, double* c) {
  with_type<kFloats>(dtype, [&]<class T>() { multiply_rows<T>(a, b, n, k, slice, c); });
}

namespace {

// An operand cut to TF32 is smaller by up to 2^-10 of itself where it is cut off (wgmma), and off
// by up to 2^-11 to either side where it is rounded. Rounded to nearest, a product's two errors are
// fresh noise of 2.9e-4 of the norm of the result, at every K. Cut off, all products are smaller by
// twice 2^-11 / 1.39 on average: a bias of 7.1e-4, together with that noise 7.7e-4. 2^-10 = 9.8e-4
// is allowed of the norm; of the worst element of 10^6, 3 of these at K = 8 and 1.5 at K = 4096, 4.
Tolerance tolerance_of(const Call& call, DType rounded_to) {
  Tolerance allowed = product_tolerance(rounded_to, call.k);
  if (call.tf32) {
    const double cut = std::ldexp(1.0, -10);
    allowed.relative += cut;
    allowed.worst += 4 * cut;
  }
  return allowed;
}

}  // namespace

Tolerance Gemm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const Call call = Gemm::call(problem);
  return tolerance_of(call, call.dtype);
}
Tolerance Bmm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const Call call = Bmm::call(problem);
  return tolerance_of(call, call.out_dtype);
}

// Each of K additions rounds a partial sum of size sqrt(k): together that is an error of 0.3
// sqrt(K) units of the result, of single elements up to 1.5 sqrt(K). Twice that is allowed, which
// at K = 4096 is still half of what eight missing products would be.
Tolerance Gemm::tolerance_in(const Problem& problem, const Parameter& output, DType accumulate) {
  Tolerance allowed = tolerance(problem, output);
  const double noise = rounding_error(accumulate) * std::sqrt(static_cast<double>(call(problem).k));
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
  reference_product(problem.dtype(), a, b, n, k, slice, expected[2]);
}

int64_t Bmm::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& c = problem.tensor(2);
  return c.extent(0) * c.extent(1);
}

// Slices are rows of the products, one product after the other.
void Bmm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const int64_t m = problem.tensor(2).extent(1);
  const int64_t n = problem.tensor(2).extent(2);
  const int64_t k = problem.tensor(0).extent(2);
  with_type<kFloats>(problem.dtype(), [&]<class T>() {
    for (int64_t at = slice.first; at < slice.last;) {
      const int64_t product = at / m;
      const int64_t last = std::min(slice.last, (product + 1) * m);
      Matrix a = matrix_of(problem.tensor(0), false);
      Matrix b = matrix_of(problem.tensor(1), false);
      a.data = a.as<T>() + product * a.batch;
      b.data = b.as<T>() + product * b.batch;
      multiply_rows<T>(a, b, n, k, {at - product * m, last - product * m},
                       expected[2] + (at - slice.first) * n);
      at = last;
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr std::array kSmoke = {shape(72, 136, 72, kNn), shape(65, 33, 40, kTt, 3),
                               shape(19, 40, 24, kNn),  shape(32, 48, 64, kNn),
                               shape(2, 40, 64, kNt),   shape(8, 520, 72, kNt),
                               shape(40, 72, 136, kNt), tf32_shape(72, 136, 40, kNn)};

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
    shape(304, 520, 72, kNn),
    shape(304, 520, 72, kNt),
    shape(304, 520, 72, kTn),
    shape(304, 520, 72, kTt),
    shape(240, 496, 144, kNn),
    shape(248, 504, 136, kTt),
    shape(160, 96, 200, kNn, 0, 1),
    shape(160, 96, 200, kNt, 0, 2),
    shape(160, 96, 200, kTn, 0, 4),
    shape(160, 96, 200, kTt, 0, 8),
    shape(191, 97, 331, kNn),
    shape(2, 264, 136, kNt),
    shape(2, 260, 129, kNt, 7),
    shape(261, 7, 264, kNt),
    shape(3, 70, 520, kNt),
    shape(136, 120, 328, kNn),
    shape(31, 131, 523, kNn, 0, 1),
    shape(131, 31, 523, kNt, 5, 1),
    shape(37, 45, 301, kNt),
    shape(37, 45, 301, kTn, 3, 1),
    shape(20, 36, 132, kNn),
    shape(33, 20, 5, kNt, 0, 1),
    shape(392, 240, 136, kNt),
    tf32_shape(3, 5, 0, kNn),
    tf32_shape(129, 257, 65, kNn, 7),
    tf32_shape(144, 264, 200, kNn),
    tf32_shape(240, 496, 80, kNt),
    tf32_shape(160, 96, 200, kTt, 0, 1),
    tf32_shape(136, 264, 72, kTt),
    tf32_shape(264, 136, 100, kTn, 4),
};

constexpr std::array kBench = {
    shape(1024, 1024, 1024, kNn),      shape(1024, 1024, 1024, kNt),
    shape(2048, 2048, 2048, kNn),      shape(2048, 2048, 2048, kNt),
    shape(4096, 4096, 4096, kNn),      shape(4096, 4096, 4096, kNt),
    shape(4096, 4096, 4096, kTn),      shape(4096, 4096, 4096, kTt),
    shape(8192, 8192, 8192, kNn),      shape(8192, 8192, 8192, kNt),
    shape(8192, 8192, 8192, kTn),      shape(8192, 8192, 8192, kTt),
    shape(4097, 4095, 4099, kNn),      tf32_shape(2048, 2048, 2048, kNn),
    tf32_shape(2048, 2048, 2048, kNt), tf32_shape(4096, 4096, 4096, kNn),
    tf32_shape(4096, 4096, 4096, kNt), tf32_shape(8192, 8192, 8192, kNn),
    tf32_shape(8192, 8192, 8192, kNt),
};

// A case of bmm by B, M, N, K; padding widens the rows of all three.
constexpr Case batch(int64_t products, int64_t m, int64_t n, int64_t k, int views = 0,
                     int64_t padding = 0, int offset = 0) {
  return {.extents = {products, m, n, k, views}, .offset = offset, .padding = padding};
}

// The same with c in f32, whatever a and b are.
constexpr Case wide_batch(int64_t products, int64_t m, int64_t n, int64_t k, int views = 0,
                          int64_t padding = 0, int offset = 0) {
  Case made = batch(products, m, n, k, views, padding, offset);
  made.attributes[0] = Value::choice(0);
  return made;
}
// The same whose f32 may be cut to TF32.
constexpr Case tf32_batch(int64_t products, int64_t m, int64_t n, int64_t k, int views = 0,
                          int64_t padding = 0, int offset = 0) {
  Case made = batch(products, m, n, k, views, padding, offset);
  made.attributes[1] = Value::choice(static_cast<int>(Gemm::Precision::kTf32));
  made.dtypes = {DType::kF32};
  return made;
}

constexpr auto kAT = Bmm::kATransposed;
constexpr auto kBT = Bmm::kBTransposed;
constexpr auto kCT = Bmm::kCTransposed;
constexpr auto kAOne = Bmm::kAExpanded;
constexpr auto kBOne = Bmm::kBExpanded;
constexpr auto kTurns = Bmm::kInterleaved;

constexpr std::array kBatchedSmoke = {
    batch(3, 24, 40, 16),      batch(2, 9, 13, 21, kBT, 3),      batch(5, 8, 16, 24, kAT | kBOne),
    wide_batch(3, 24, 40, 16), wide_batch(2, 9, 13, 21, kBT, 3), tf32_batch(3, 24, 40, 16, kBT),
    tf32_batch(2, 9, 13, 21),  tf32_batch(2, 24, 40, 16)};

// Products that end within a tile, so that a copy which runs on into the next product is seen;
// every layout, expanded and interleaved, aligned and not.
constexpr std::array kBatchedVerify = {
    batch(1, 1, 1, 1),
    batch(0, 8, 8, 8),
    batch(3, 0, 8, 8),
    batch(2, 3, 5, 0),
    batch(70, 2, 3, 5),
    batch(2, 128, 256, 64),
    batch(3, 130, 72, 72),
    batch(3, 130, 72, 72, kAT | kBT, 7),
    batch(3, 136, 264, 136, kAT),
    batch(3, 264, 136, 72, kBT),
    batch(4, 72, 200, 136, kAT | kBT),
    batch(4, 72, 136, 72, kCT | kAT),
    batch(4, 72, 136, 72, kAOne),
    batch(4, 72, 136, 72, kBOne | kBT),
    batch(4, 72, 136, 72, kAOne | kBOne | kCT),
    batch(3, 136, 72, 72, kTurns | kBT),
    batch(3, 64, 72, 64, kTurns, 8),
    batch(3, 33, 31, 65, 0, 1),
    batch(3, 64, 64, 64, kBT, 0, 1),
    batch(5, 131, 133, 127),
    batch(3, 129, 67, 65, kAT | kBT),
    batch(3, 256, 128, 192),
    batch(300, 8, 8, 8),
    wide_batch(2, 3, 5, 0),
    wide_batch(3, 136, 264, 136, kAT),
    wide_batch(4, 72, 200, 136, kAT | kBT, 8),
    wide_batch(3, 130, 68, 72, kBT, 4),
    wide_batch(4, 72, 136, 72, kCT | kAOne),
    wide_batch(3, 136, 72, 72, kTurns | kBT),
    wide_batch(5, 131, 133, 67, kAT),
    wide_batch(3, 64, 64, 64, kBT, 0, 1),
    tf32_batch(3, 136, 264, 136, kBT),
    tf32_batch(4, 72, 200, 100, kAT),
    tf32_batch(3, 130, 72, 72, kAOne | kBOne | kBT),
    tf32_batch(3, 264, 136, 40, kCT | kTurns),
    tf32_batch(3, 129, 67, 65, kAT | kBT, 1),
    tf32_batch(3, 64, 64, 64, kBT, 0, 1),
    tf32_batch(3, 136, 200, 72),
    tf32_batch(3, 72, 136, 100, kAT | kBT),
};

// The products of attention and of experts; one of each of the views that a gradient brings.
constexpr std::array kBatchedBench = {
    batch(32, 1024, 1024, 1024),       batch(32, 1024, 1024, 1024, kBT),
    batch(32, 1024, 1024, 1024, kAT),  batch(64, 512, 512, 64),
    batch(64, 512, 512, 64, kBT),      batch(64, 512, 64, 512),
    batch(8, 4096, 4096, 128),         batch(8, 4096, 4096, 128, kBT),
    batch(256, 128, 128, 128),         wide_batch(32, 1024, 1024, 1024),
    wide_batch(64, 512, 512, 64),      wide_batch(64, 512, 64, 512),
    tf32_batch(32, 1024, 1024, 1024),  tf32_batch(32, 1024, 1024, 1024, kBT),
    tf32_batch(64, 512, 512, 64, kBT), tf32_batch(8, 4096, 4096, 128, kBT),
};

}  // namespace

Cases Gemm::cases() { return {kSmoke, kVerify, kBench}; }
Cases Bmm::cases() { return {kBatchedSmoke, kBatchedVerify, kBatchedBench}; }

}  // namespace ws::gemm
