// Sparse matrices times dense vectors and matrices.
//
//   spmv_csr   y = alpha A x + beta added
//   spmm_csr   C = A B
//
// A is in compressed rows: of row i the entries are those from crow[i] to crow[i + 1], each with a
// column and a value. Columns need not be in order; what stands twice in a place is added up.
// Entries after the last row's belong to none, so that a buffer may be larger than what it holds.
#pragma once

#include "catalogue/row.hpp"

namespace ws::spmv {

inline constexpr DTypes kValues = kFloats | DTypes{DType::kF64};
inline constexpr DTypes kIndices = {DType::kI32, DType::kI64};

// A as both operations have it.
struct Matrix {
  DType dtype{};
  DType index{};  // of crow and col
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t entries = 0;
  const void* values = nullptr;
  const void* crow = nullptr;
  const void* col = nullptr;
  int64_t value_step = 1;
  int64_t crow_step = 1;
  int64_t col_step = 1;

  double mean_length() const {
    return static_cast<double>(entries) / static_cast<double>(rows < 1 ? 1 : rows);
  }
};

struct VectorCall : Matrix {
  const void* x = nullptr;
  const void* added = nullptr;  // null where there is none, or beta is 0
  void* y = nullptr;
  int64_t x_step = 1;
  int64_t added_step = 1;
  int64_t y_step = 1;
  double alpha = 1;
  double beta = 1;
};

struct MatrixCall : Matrix {
  int64_t width = 0;  // of b and c
  const void* b = nullptr;
  void* c = nullptr;
  int64_t b_row = 0;  // strides
  int64_t b_column = 1;
  int64_t c_row = 0;
  int64_t c_column = 1;
};

// What a case has beyond its extents, a sum of these.
enum Options : uint8_t { kWideIndices = 1, kHasAdded = 2, kTransposed = 4, kGaps = 8 };

inline constexpr Parameter kValuesIn = {.name = "values",
                                        .doc = "[nnz], one for each entry, any stride"};
inline constexpr Parameter kCrowIn = {
    .name = "crow",
    .doc =
        "[M + 1], i32 or i64, any stride, where each row begins: from 0 on, never less than the "
        "one before"};
inline constexpr Parameter kColIn = {
    .name = "col", .doc = "[nnz], dtype of crow, any stride, the column of each entry"};

struct SpmvCsr {
  static constexpr std::string_view kName = "spmv_csr";
  static constexpr std::string_view kSummary =
      "sparse matrix in compressed rows times a vector, accumulated in f32 or f64";
  static constexpr std::string_view kSource =
      "Bell and Garland, Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented "
      "Processors, 2009";
  static constexpr std::string_view kFormula =
      "y[i] = alpha * sum of values[j] * x[col[j]], crow[i] <= j < crow[i + 1], + beta * added[i]";
  static constexpr std::string_view kSeedPrefix = "spmv_csr";
  static constexpr Parameter kParameters[] = {
      kValuesIn,
      kCrowIn,
      kColIn,
      {.name = "x", .doc = "[N], dtype of values, any stride"},
      {.name = "added",
       .optional = true,
       .doc = "[M], dtype of values, any stride; not read where beta is 0"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M], dtype of values",
       .shape = "(crow.shape[0] - 1,)"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "alpha",
       .kind = Value::Kind::kFloat,
       .standard = 1.0,
       .doc = "what times the product"},
      {.name = "beta", .kind = Value::Kind::kFloat, .standard = 1.0, .doc = "what times added"},
  };
  // step: of x, added and y, 0 is 1; options: a sum of Options.
  static constexpr std::string_view kExtentNames[] = {"M", "N", "nnz", "step", "options"};
  static constexpr int kOptionalExtents = 2;
  static constexpr DTypes kDTypes = kValues;
  static constexpr std::string_view kTorch = R"(
wide = torch.promote_types(values.dtype, torch.float32)
rows = torch.searchsorted(crow, torch.arange(len(col), dtype=crow.dtype, device=col.device),
                          right=True) - 1
kept = rows < len(crow) - 1
products = values[kept].to(wide) * x.to(wide)[col[kept].long()]
y = alpha * x.new_zeros(len(crow) - 1, dtype=wide).index_add(0, rows[kept], products)
if added is not None and beta != 0:
    y = y + beta * added.to(wide)
return y.to(values.dtype))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_sparse",
       "torch.sparse_csr_tensor(crow, col, values, (len(crow) - 1, len(x)), "
       "check_invariants=False).mv(x) if added is None and alpha == 1 else "
       "refuse('timed as a plain product')"},
  };
  // The entry's row, M for those of none: there the gradient is 0, and so is the column.
  static constexpr std::string_view kGradient = R"(
wide = torch.promote_types(values.dtype, torch.float32)
rows = torch.searchsorted(crow, torch.arange(values.shape[0], dtype=crow.dtype,
                                             device=col.device), right=True) - 1
kept = rows < crow.shape[0] - 1
at = torch.where(kept, col, 0).long()
d = torch.nn.functional.pad(g.to(wide), (0, 1))[rows] * alpha
dx = torch.zeros_like(x, dtype=wide).index_add(0, at, d * torch.where(kept, values, 0).to(wide))
return ((d * x.to(wide)[at]).to(values.dtype), None, None, dx.to(x.dtype),
        None if added is None else g * beta))";

  using Call = VectorCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct SpmmCsr {
  static constexpr std::string_view kName = "spmm_csr";
  static constexpr std::string_view kSummary =
      "sparse matrix in compressed rows times a dense matrix, accumulated in f32 or f64";
  static constexpr std::string_view kSource =
      "Yang, Buluc and Owens, Design Principles for Sparse Matrix Multiplication on the GPU, 2018";
  static constexpr std::string_view kFormula =
      "c[i, n] = sum of values[j] * b[col[j], n], crow[i] <= j < crow[i + 1]";
  static constexpr Parameter kParameters[] = {
      kValuesIn,
      kCrowIn,
      kColIn,
      {.name = "b", .doc = "[K, N], dtype of values, any strides"},
      {.name = "c",
       .role = Parameter::Role::kOut,
       .doc = "[M, N], dtype of values",
       .shape = "(crow.shape[0] - 1, b.shape[1])"},
  };
  // options: a sum of Options; transposed is b.
  static constexpr std::string_view kExtentNames[] = {"M", "K", "nnz", "N", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kValues;
  static constexpr std::string_view kTorch = R"(
wide = torch.promote_types(values.dtype, torch.float32)
rows = torch.searchsorted(crow, torch.arange(len(col), dtype=crow.dtype, device=col.device),
                          right=True) - 1
kept = rows < len(crow) - 1
products = values[kept, None].to(wide) * b.to(wide)[col[kept].long()]
c = b.new_zeros(len(crow) - 1, b.shape[1], dtype=wide).index_add(0, rows[kept], products)
return c.to(values.dtype))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_sparse",
       "torch.sparse_csr_tensor(crow, col, values, (len(crow) - 1, len(b)), "
       "check_invariants=False) @ b"},
  };
  static constexpr std::string_view kGradient = R"(
wide = torch.promote_types(values.dtype, torch.float32)
rows = torch.searchsorted(crow, torch.arange(values.shape[0], dtype=crow.dtype,
                                             device=col.device), right=True) - 1
kept = rows < crow.shape[0] - 1
at = torch.where(kept, col, 0).long()
d = torch.nn.functional.pad(g.to(wide), (0, 0, 0, 1))[rows]
db = torch.zeros_like(b, dtype=wide).index_add(
    0, at, d * torch.where(kept, values, 0).to(wide)[:, None])
return (d * b.to(wide)[at]).sum(1).to(values.dtype), None, None, db.to(b.dtype))";

  using Call = MatrixCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::spmv
