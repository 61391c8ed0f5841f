// GEMM: what every rung of the family computes, and how it is checked.
//
//   C[M, N] = op(A) op(B), accumulated in f32, rounded once to the dtype of the inputs.
//
// `layout` says how A and B are stored, 't' meaning transposed: A is [M, K] (n) or [K, M] (t), B is
// [K, N] (n) or [N, K] (t), row by row. So `nt` is the product of a torch linear layer: both
// operands have K contiguous. BLAS, which counts in columns, calls that one TN.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace ws::gemm {

inline constexpr std::array<std::string_view, 4> kLayouts = {"nn", "nt", "tn", "tt"};

// A matrix as a rung sees it, transposes resolved: element (i, j) is data[i * row + j * column].
struct Matrix {
  void* data = nullptr;
  int64_t row = 0;  // strides in elements
  int64_t column = 0;
};

// One call, transposes resolved: C[m, n] = sum over k of A[m, k] B[k, n].
struct Call {
  DType dtype{};
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Matrix a;
  Matrix b;
  Matrix c;
};

// Which index of a matrix walks through memory in steps of one element.
enum class Contiguous { kColumns, kRows, kNeither };

// `leading` is the distance between neighbouring contiguous runs, in elements. An extent of 1 has
// no stride of its own: torch leaves any number there.
struct Storage {
  Contiguous contiguous{};
  int64_t leading = 0;
};

inline Storage storage_of(const Matrix& matrix, int64_t rows, int64_t columns) {
  // A single run has no next one: the largest power of two leaves every alignment possible.
  constexpr int64_t kAnyLeading = 1 << 20;
  if (matrix.column == 1 || columns <= 1) {
    return {Contiguous::kColumns, rows <= 1 ? kAnyLeading : matrix.row};
  }
  if (matrix.row == 1 || rows <= 1) return {Contiguous::kRows, matrix.column};
  return {Contiguous::kNeither, 0};
}

inline Matrix matrix_of(const Tensor& tensor, bool transposed) {
  Matrix matrix{tensor.data, tensor.strides[0], tensor.strides[1]};
  if (transposed) std::swap(matrix.row, matrix.column);
  return matrix;
}

inline Call call_of(const Problem& problem) {
  const auto layout = static_cast<int>(problem.attribute(0));
  const Tensor& c = problem.tensor(2);
  Call call;
  call.dtype = c.dtype;
  call.m = c.shape[0];
  call.n = c.shape[1];
  call.k = problem.tensor(0).shape[layout >= 2 ? 0 : 1];
  call.a = matrix_of(problem.tensor(0), layout >= 2);
  call.b = matrix_of(problem.tensor(1), layout % 2 == 1);
  call.c = matrix_of(c, false);
  // An output whose columns are contiguous is the row-major output of C^T = B^T A^T.
  if (storage_of(call.c, call.m, call.n).contiguous == Contiguous::kRows) {
    std::swap(call.m, call.n);
    std::swap(call.a, call.b);
    for (Matrix* matrix : {&call.a, &call.b, &call.c}) std::swap(matrix->row, matrix->column);
  }
  return call;
}

// The widest power of two of bytes, at most 16, that divides every run's address.
inline int alignment_of(const void* data, int64_t leading, DType dtype) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uint64_t bits = address | (static_cast<uint64_t>(leading) * size_of(dtype)) | 16;
  return static_cast<int>(bits & -bits);
}

// ---- The operation ----------------------------------------------------------------------------

inline void infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const auto layout = static_cast<size_t>(problem.attribute(0));
  // Not require(): describing tensors that fit would cost more than all the rest of a call.
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(
        concatenate("gemm ", what, ", got ", a.describe(), " and ", b.describe()));
  };
  if (a.rank != 2 || b.rank != 2) [[unlikely]]
    fail("takes matrices");
  if (a.dtype != b.dtype) [[unlikely]]
    fail("takes one dtype");
  if (!kFloats.has(a.dtype)) [[unlikely]]
    fail("takes f32, f16 and bf16");
  const bool a_transposed = layout >= 2;
  const bool b_transposed = layout % 2 == 1;
  const int64_t k = a.shape[a_transposed ? 0 : 1];
  const int64_t k_of_b = b.shape[b_transposed ? 1 : 0];
  if (k != k_of_b) [[unlikely]] {
    throw InvalidArgument(concatenate("gemm with layout ", kLayouts[layout], ": A ", a.describe(),
                                      " has K = ", k, " and B ", b.describe(),
                                      " has K = ", k_of_b));
  }
  problem.tensor(2) =
      Tensor::dense(a.dtype, {a.shape[a_transposed ? 1 : 0], b.shape[b_transposed ? 0 : 1]});
}

// Extents are M, N, K; padding widens the rows of all three matrices.
inline Problem make(const Operation& operation, const Case& chosen, DType dtype) {
  const auto [m, n, k, unused] = chosen.extents;
  Problem problem;
  problem.operation = &operation;
  problem.tensor_count = 3;
  if (chosen.has_attributes) problem.attributes = chosen.attributes;
  const auto layout = static_cast<int>(problem.attribute(0));
  problem.tensor(0) = layout >= 2 ? Tensor::dense(dtype, {k, m}) : Tensor::dense(dtype, {m, k});
  problem.tensor(1) = layout % 2 == 1 ? Tensor::dense(dtype, {n, k}) : Tensor::dense(dtype, {k, n});
  infer(problem);
  for (int i = 0; i < 3; ++i) problem.tensor(i).strides[0] += chosen.padding;
  return problem;
}

inline Cost cost(const Problem& problem) {
  const Call call = call_of(problem);
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  return {.bytes = (m * k + k * n + m * n) * static_cast<double>(size_of(call.dtype)),
          .flops = 2 * m * n * k};
}

// Outputs are sums of K products of standard normal numbers: their size is sqrt(K). They are
// rounded once; the f32 sum before that errs by its last bits, which tensor cores cut off (a bias
// that grows with K) where FMAs round (noise that grows with its root).
inline Tolerance tolerance(const Problem& problem) {
  const auto k = static_cast<double>(call_of(problem).k);
  const DType dtype = problem.tensor(0).dtype;
  const double rounding = dtype == DType::kBf16  ? std::ldexp(1.0, -8)
                          : dtype == DType::kF16 ? std::ldexp(1.0, -11)
                                                 : std::ldexp(1.0, -24);
  const double accumulation = std::ldexp(1.0, -23) * (4 + std::sqrt(k) + k / 32);
  return {.relative = rounding + accumulation,
          .worst = 1.01 * rounding + 8 * accumulation,
          .floor = std::sqrt(k) + std::ldexp(1.0, -14)};
}

inline int64_t items(const Problem& problem) { return problem.tensor(2).shape[0]; }

template <class T>
void reference_rows(const Problem& problem, Slice slice, double* expected) {
  // Transposes resolved, but never C's: slices are rows of C.
  const auto layout = static_cast<int>(problem.attribute(0));
  const Matrix a = matrix_of(problem.tensor(0), layout >= 2);
  const Matrix b = matrix_of(problem.tensor(1), layout % 2 == 1);
  const int64_t n = problem.tensor(2).shape[1];
  const int64_t k = problem.tensor(0).shape[layout >= 2 ? 0 : 1];
  const auto rows = slice.last - slice.first;
  std::fill(expected, expected + rows * n, 0.0);
  // B is widened once for all rows of the slice, a panel of K at a time so that it stays in cache.
  constexpr int64_t kPanel = 32;
  std::vector<double> panel(static_cast<size_t>(kPanel * n));
  for (int64_t first = 0; first < k; first += kPanel) {
    const int64_t depth = std::min(kPanel, k - first);
    for (int64_t p = 0; p < depth; ++p) {
      const T* from = static_cast<const T*>(b.data) + (first + p) * b.row;
      for (int64_t j = 0; j < n; ++j) {
        panel[static_cast<size_t>(p * n + j)] = to_float(from[j * b.column]);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      const T* from = static_cast<const T*>(a.data) + (slice.first + i) * a.row;
      for (int64_t p = 0; p < depth; ++p) {
        const double factor = to_float(from[(first + p) * a.column]);
        const double* row = &panel[static_cast<size_t>(p * n)];
        for (int64_t j = 0; j < n; ++j) expected[i * n + j] += factor * row[j];
      }
    }
  }
}

inline void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  switch (problem.tensor(0).dtype) {
    case DType::kF16: return reference_rows<half>(problem, slice, expected[0]);
    case DType::kBf16: return reference_rows<bf16>(problem, slice, expected[0]);
    default: return reference_rows<float>(problem, slice, expected[0]);
  }
}

// ---- Shapes -----------------------------------------------------------------------------------

constexpr Case shape(int64_t m, int64_t n, int64_t k, int layout, int64_t padding = 0,
                     int offset = 0) {
  return {.extents = {m, n, k},
          .offset = offset,
          .padding = padding,
          .attributes = {static_cast<double>(layout)},
          .has_attributes = true};
}
inline constexpr int kNn = 0;
inline constexpr int kNt = 1;
inline constexpr int kTn = 2;
inline constexpr int kTt = 3;

inline constexpr std::array kSmoke = {shape(72, 136, 72, kNn), shape(65, 33, 40, kTt, 3)};

// Around the tiles of the rungs: 64, 128 and 256 rows or columns, 64 deep; rows 16-byte aligned
// (padding 7 or none), 8, 4, 2 (odd); pointers that are not.
inline constexpr std::array kVerify = {
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
    shape(248, 504, 136, kNn),
    shape(248, 504, 136, kTt),
    shape(160, 96, 200, kNn, 0, 1),
    shape(160, 96, 200, kNt, 0, 2),
    shape(160, 96, 200, kTn, 0, 4),
    shape(160, 96, 200, kTt, 0, 8),
    shape(191, 97, 331, kNn),
};

inline constexpr std::array kBench = {
    shape(1024, 1024, 1024, kNn), shape(1024, 1024, 1024, kNt), shape(2048, 2048, 2048, kNn),
    shape(2048, 2048, 2048, kNt), shape(4096, 4096, 4096, kNn), shape(4096, 4096, 4096, kNt),
    shape(4096, 4096, 4096, kTn), shape(4096, 4096, 4096, kTt), shape(8192, 8192, 8192, kNn),
    shape(8192, 8192, 8192, kNt), shape(8192, 8192, 8192, kTn), shape(8192, 8192, 8192, kTt),
    shape(4097, 4095, 4099, kNn),
};

}  // namespace ws::gemm
