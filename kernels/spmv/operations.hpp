// Sparse matrices times dense vectors and matrices.
//
//   spmv_csr, spmv_coo, spmv_ell, spmv_bsr   y = alpha A x + beta added
//   spmm_csr                                 C = A B
//   sddmm_csr                                of the product of two dense matrices what A has
//
// What A is in:
//   csr  compressed rows: of row i the entries are those from crow[i] to crow[i + 1], each with a
//        column and a value. Columns need not be in order. Entries after the last row's belong to
//        none, so that a buffer may be larger than what it holds.
//   coo  coordinates: each entry has a row, a column and a value, in any order
//   ell  as many slots in each row, of which some may be padding: their column is -1, their value
//        nobody reads
//   bsr  compressed rows of dense blocks
// What stands twice in a place is added up.
#pragma once

#include "catalogue/joined.hpp"
#include "catalogue/row.hpp"

namespace ws::spmv {

inline constexpr DTypes kValues = kFloats | DTypes{DType::kF64};
inline constexpr DTypes kIndices = {DType::kI32, DType::kI64};

// What A is multiplied with, and where the product goes.
struct Vectors {
  const void* x = nullptr;
  const void* added = nullptr;  // null where there is none, or beta is 0
  void* y = nullptr;
  int64_t x_step = 1;
  int64_t added_step = 1;
  int64_t y_step = 1;
  double alpha = 1;
  double beta = 1;
};

// A in compressed rows.
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

struct VectorCall : Matrix, Vectors {};

struct MatrixCall : Matrix {
  int64_t width = 0;  // of b and c
  const void* b = nullptr;
  void* c = nullptr;
  int64_t b_row = 0;  // strides
  int64_t b_column = 1;
  int64_t c_row = 0;
  int64_t c_column = 1;
};

// A's values are the result.
struct SampledCall : Matrix {
  int64_t width = 0;  // of left, and of right
  const void* left = nullptr;
  const void* right = nullptr;
  void* result = nullptr;
  int64_t left_row = 0;  // strides
  int64_t left_column = 1;
  int64_t right_row = 0;
  int64_t right_column = 1;
};

struct CooCall : Vectors {
  DType dtype{};
  DType index{};
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t entries = 0;
  const void* values = nullptr;
  const void* row = nullptr;
  const void* col = nullptr;
  int64_t value_step = 1;
  int64_t row_step = 1;
  int64_t col_step = 1;
  bool is_ordered = false;
};

struct EllCall : Vectors {
  DType dtype{};
  DType index{};
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t slots = 0;  // of a row
  const void* values = nullptr;
  const void* col = nullptr;
  // From row to row, from slot to slot.
  int64_t value_row = 0;
  int64_t value_slot = 1;
  int64_t col_row = 0;
  int64_t col_slot = 1;
};

// The matrix of blocks is in compressed rows, a block its value.
struct BsrCall : VectorCall {
  int64_t block_rows = 1;  // of a block
  int64_t block_columns = 1;
  int64_t value_row = 1;  // from row to row of a block
  int64_t value_column = 1;
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

inline constexpr Parameter kAddedIn = {
    .name = "added",
    .optional = true,
    .doc = "[M], dtype of values, any stride; not read where beta is 0"};
inline constexpr Attribute kAlpha = {
    .name = "alpha", .kind = Value::Kind::kFloat, .standard = 1.0, .doc = "what times the product"};
inline constexpr Attribute kBeta = {
    .name = "beta", .kind = Value::Kind::kFloat, .standard = 1.0, .doc = "what times added"};

// Of compressed rows, in torch: each entry's row, and whether it has one.
inline constexpr std::string_view kWideInTorch = R"(
wide = torch.promote_types(values.dtype, torch.float32))";
inline constexpr std::string_view kRowsInTorch = R"(
rows = torch.searchsorted(crow, torch.arange(col.shape[0], dtype=crow.dtype,
                                             device=col.device), right=True) - 1
kept = rows < crow.shape[0] - 1)";
inline constexpr std::string_view kEntriesInTorch = kJoined<kWideInTorch, kRowsInTorch>;
// Each entry's column; 0 of those of no row, whose row is M: there the gradient is 0.
inline constexpr std::string_view kColumnsInTorch = R"(
at = torch.where(kept, col, 0).long())";
// Compressed rows of the transposed matrix: the entries' order, where its rows begin, and their
// columns, the rows. Entries of no row are of its first row, and of column M.
inline constexpr std::string_view kTransposedInTorch = R"(
at = torch.where(kept, col, 0)
order = torch.argsort(at, stable=True)
starts = torch.searchsorted(
    at[order], torch.arange(b.shape[0] + 1, dtype=col.dtype, device=col.device),
    out_int32=col.dtype == torch.int32)
sources = rows[order].to(col.dtype))";

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
      kAddedIn,
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M], dtype of values",
       .shape = "(crow.shape[0] - 1,)"},
  };
  static constexpr Attribute kAttributes[] = {kAlpha, kBeta};
  // step: of x, added and y, 0 is 1; options: a sum of Options.
  static constexpr std::string_view kExtentNames[] = {"M", "N", "nnz", "step", "options"};
  static constexpr int kOptionalExtents = 2;
  static constexpr DTypes kDTypes = kValues;
  static constexpr std::string_view kProductInTorch = R"(
products = values[kept].to(wide) * x.to(wide)[col[kept].long()]
y = alpha * x.new_zeros(len(crow) - 1, dtype=wide).index_add(0, rows[kept], products)
if added is not None and beta != 0:
    y = y + beta * added.to(wide)
return y.to(values.dtype))";
  static constexpr std::string_view kTorch = kJoined<kEntriesInTorch, kProductInTorch>;
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_sparse",
       "torch.sparse_csr_tensor(crow, col, values, (len(crow) - 1, len(x)), "
       "check_invariants=False).mv(x) if added is None and alpha == 1 else "
       "refuse('timed as a plain product')"},
  };
  static constexpr std::string_view kGiven = R"(
d = torch.nn.functional.pad(g.to(wide), (0, 1))[rows] * alpha
dx = torch.zeros_like(x, dtype=wide).index_add(0, at, d * torch.where(kept, values, 0).to(wide))
return ((d * x.to(wide)[at]).to(values.dtype), None, None, dx.to(x.dtype),
        None if added is None else g * beta))";
  static constexpr std::string_view kGradient = kJoined<kEntriesInTorch, kColumnsInTorch, kGiven>;

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

struct SpmvCoo {
  static constexpr std::string_view kName = "spmv_coo";
  static constexpr std::string_view kSummary =
      "sparse matrix in coordinates times a vector, accumulated in f32 or f64";
  static constexpr std::string_view kSource =
      "Bell and Garland, Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented "
      "Processors, 2009";
  static constexpr std::string_view kFormula =
      "y[i] = alpha * sum of values[j] * x[col[j]], row[j] = i, + beta * added[i]";
  static constexpr Parameter kParameters[] = {
      kValuesIn,
      {.name = "row", .doc = "[nnz], i32 or i64, any stride, the row of each entry"},
      {.name = "col", .doc = "[nnz], dtype of row, any stride, the column of each entry"},
      {.name = "x", .doc = "[N], dtype of values, any stride"},
      kAddedIn,
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M], dtype of values, M being `rows`",
       .shape = "(rows,)"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "rows", .kind = Value::Kind::kInt, .doc = "of the matrix"},
      {.name = "ordered",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "rows never fall from entry to entry, as in a coalesced tensor of torch's; one that "
              "does is an error that the device finds"},
      kAlpha,
      kBeta,
  };
  static constexpr std::string_view kExtentNames[] = {"N", "nnz", "step", "options"};
  static constexpr int kOptionalExtents = 2;
  static constexpr DTypes kDTypes = kValues;
  static constexpr std::string_view kTorch = R"(
wide = torch.promote_types(values.dtype, torch.float32)
products = values.to(wide) * x.to(wide)[col.long()]
y = alpha * x.new_zeros(rows, dtype=wide).index_add(0, row.long(), products)
if added is not None and beta != 0:
    y = y + beta * added.to(wide)
return y.to(values.dtype))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_sparse",
       "torch.sparse_coo_tensor(torch.stack((row, col)), values, (rows, len(x)), "
       "check_invariants=False, is_coalesced=ordered).mv(x) if added is None and alpha == 1 else "
       "refuse('timed as a plain product')"},
  };
  static constexpr std::string_view kGradient = R"(
wide = torch.promote_types(values.dtype, torch.float32)
at = col.long()
d = g.to(wide)[row.long()] * alpha
dx = torch.zeros_like(x, dtype=wide).index_add(0, at, d * values.to(wide))
return ((d * x.to(wide)[at]).to(values.dtype), None, None, dx.to(x.dtype),
        None if added is None else g * beta))";

  using Call = CooCall;
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

struct SpmvEll {
  static constexpr std::string_view kName = "spmv_ell";
  static constexpr std::string_view kSummary =
      "sparse matrix of as many slots in each row times a vector, accumulated in f32 or f64";
  static constexpr std::string_view kSource =
      "Bell and Garland, Implementing Sparse Matrix-Vector Multiplication on Throughput-Oriented "
      "Processors, 2009";
  static constexpr std::string_view kFormula =
      "y[i] = alpha * sum of values[i, k] * x[col[i, k]], col[i, k] not -1, + beta * added[i]";
  static constexpr Parameter kParameters[] = {
      {.name = "values", .doc = "[M, K], any strides; not used where the column is -1"},
      {.name = "col", .doc = "[M, K], i32 or i64, any strides, the column of each entry or -1"},
      {.name = "x", .doc = "[N], dtype of values, any stride"},
      kAddedIn,
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M], dtype of values",
       .shape = "(values.shape[0],)"},
  };
  static constexpr Attribute kAttributes[] = {kAlpha, kBeta};
  // options: a sum of Options; transposed are values and col: slot by slot in memory.
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K", "step", "options"};
  static constexpr int kOptionalExtents = 2;
  static constexpr DTypes kDTypes = kValues;
  // A zero before x is what padding is multiplied with.
  static constexpr std::string_view kTorch = R"(
wide = torch.promote_types(values.dtype, torch.float32)
factors = torch.nn.functional.pad(x.to(wide), (1, 0))[col.long() + 1]
y = alpha * (torch.where(col < 0, 0, values).to(wide) * factors).sum(1)
if added is not None and beta != 0:
    y = y + beta * added.to(wide)
return y.to(values.dtype))";
  static constexpr std::string_view kGradient = R"(
wide = torch.promote_types(values.dtype, torch.float32)
at = col.long() + 1
d = g.to(wide)[:, None] * alpha
dvalues = d * torch.nn.functional.pad(x.to(wide), (1, 0))[at]
each = (d * torch.where(col < 0, 0, values).to(wide)).flatten()
dx = x.new_zeros(x.shape[0] + 1, dtype=wide).index_add(0, at.flatten(), each)[1:]
return (dvalues.to(values.dtype), None, dx.to(x.dtype), None if added is None else g * beta))";

  using Call = EllCall;
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

struct SpmvBsr {
  static constexpr std::string_view kName = "spmv_bsr";
  static constexpr std::string_view kSummary =
      "sparse matrix of dense blocks in compressed rows times a vector, accumulated in f32 or f64";
  static constexpr std::string_view kSource = "torch.sparse_bsr_tensor";
  static constexpr std::string_view kFormula =
      "y[i] = alpha * sum of values[j, i % r, k] * x[col[j] * c + k], crow[i / r] <= j < "
      "crow[i / r + 1], + beta * added[i]";
  static constexpr Parameter kParameters[] = {
      {.name = "values", .doc = "[n, r, c], blocks of r rows and c columns, any strides"},
      {.name = "crow",
       .doc = "[M / r + 1], i32 or i64, any stride, where each row of blocks begins: from 0 on, "
              "never less than the one before"},
      {.name = "col", .doc = "[n], dtype of crow, any stride, each block's column of blocks"},
      {.name = "x", .doc = "[N], dtype of values, any stride, a multiple of c"},
      kAddedIn,
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M], dtype of values",
       .shape = "((crow.shape[0] - 1) * values.shape[1],)"},
  };
  static constexpr Attribute kAttributes[] = {kAlpha, kBeta};
  // Of the matrix of blocks. options: a sum of Options; transposed are the blocks.
  static constexpr std::string_view kExtentNames[] = {"M", "N",    "blocks", "r",
                                                      "c", "step", "options"};
  static constexpr int kOptionalExtents = 2;
  static constexpr DTypes kDTypes = kValues;
  static constexpr std::string_view kProductInTorch = R"(
n, r, c = values.shape
factors = x.to(wide).reshape(-1, c)[col[kept].long()]
products = torch.einsum("nij,nj->ni", values[kept].to(wide), factors)
y = x.new_zeros(len(crow) - 1, r, dtype=wide).index_add(0, rows[kept], products)
y = alpha * y.flatten()
if added is not None and beta != 0:
    y = y + beta * added.to(wide)
return y.to(values.dtype))";
  static constexpr std::string_view kTorch = kJoined<kEntriesInTorch, kProductInTorch>;
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_sparse",
       "torch.sparse_bsr_tensor(crow, col, values, ((len(crow) - 1) * values.shape[1], len(x)), "
       "check_invariants=False).mv(x) if added is None and alpha == 1 else "
       "refuse('timed as a plain product')"},
  };
  // As of spmv_csr, a block for an entry.
  static constexpr std::string_view kGiven = R"(
n, r, c = values.shape
d = torch.nn.functional.pad(g.to(wide).reshape(-1, r), (0, 0, 0, 1))[rows] * alpha
factors = x.to(wide).reshape(-1, c)
blocks = torch.where(kept[:, None, None], values, 0).to(wide)
dx = torch.zeros_like(factors).index_add(0, at, (d[:, :, None] * blocks).sum(1)).flatten()
return ((d[:, :, None] * factors[at][:, None, :]).to(values.dtype), None, None, dx.to(x.dtype),
        None if added is None else g * beta))";
  static constexpr std::string_view kGradient = kJoined<kEntriesInTorch, kColumnsInTorch, kGiven>;

  using Call = BsrCall;
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
  static constexpr std::string_view kProductInTorch = R"(
products = values[kept, None].to(wide) * b.to(wide)[col[kept].long()]
c = b.new_zeros(len(crow) - 1, b.shape[1], dtype=wide).index_add(0, rows[kept], products)
return c.to(values.dtype))";
  static constexpr std::string_view kTorch = kJoined<kEntriesInTorch, kProductInTorch>;
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_sparse",
       "torch.sparse_csr_tensor(crow, col, values, (len(crow) - 1, len(b)), "
       "check_invariants=False) @ b"},
  };
  // The product with the transposed matrix, and a row of zeros for entries of no row.
  static constexpr std::string_view kGiven = R"(
db = ops.spmm_csr(torch.where(kept, values, 0)[order], starts, sources,
                  torch.nn.functional.pad(g, (0, 0, 0, 1)))
return ops.sddmm_csr(g, crow, col, b), None, None, db)";
  static constexpr std::string_view kGradient =
      kJoined<kEntriesInTorch, kTransposedInTorch, kGiven>;

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

struct SddmmCsr {
  static constexpr std::string_view kName = "sddmm_csr";
  static constexpr std::string_view kSummary =
      "of the product of two dense matrices the elements that a sparse matrix has, accumulated in "
      "f32 or f64";
  static constexpr std::string_view kSource = "torch.sparse.sampled_addmm";
  static constexpr std::string_view kFormula =
      "values[j] = sum of a[i, n] * b[col[j], n], crow[i] <= j < crow[i + 1]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, N], any strides"},
      kCrowIn,
      kColIn,
      {.name = "b", .doc = "[K, N], dtype of a, any strides"},
      {.name = "values",
       .role = Parameter::Role::kOut,
       .doc = "[nnz], dtype of a; 0 of entries of no row",
       .shape = "(col.shape[0],)"},
  };
  // options: a sum of Options; transposed is b.
  static constexpr std::string_view kExtentNames[] = {"M", "K", "nnz", "N", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kValues;
  static constexpr std::string_view kWideOfA = R"(
wide = torch.promote_types(a.dtype, torch.float32))";
  static constexpr std::string_view kProductInTorch = R"(
d = torch.nn.functional.pad(a.to(wide), (0, 0, 0, 1))[rows]
return (d * b.to(wide)[at]).sum(1).to(a.dtype))";
  static constexpr std::string_view kTorch =
      kJoined<kWideOfA, kRowsInTorch, kColumnsInTorch, kProductInTorch>;
  static constexpr std::string_view kGiven = R"(
db = ops.spmm_csr(torch.where(kept, g, 0)[order], starts, sources,
                  torch.nn.functional.pad(a, (0, 0, 0, 1)))
return ops.spmm_csr(g, crow, col, b), None, None, db)";
  static constexpr std::string_view kGradient = kJoined<kRowsInTorch, kTransposedInTorch, kGiven>;

  using Call = SampledCall;
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
