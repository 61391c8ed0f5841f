// What the family computes: the best elements along a dimension, best first, and their places.
//
//   topk   values[j] = x[i_j], indices[j] = i_j, for the k places i_0, i_1, ... that come first
//   sort   the same of all places
//
// Place i comes before place j where x[i] is larger (or smaller, as the call says) than x[j], or
// equal to it and i < j. A NaN is larger than any number, all NaN are equal, and so are 0 and -0:
// the order is total, and a result is right in one way only.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"

namespace ws::topk {

// ---- Calls ------------------------------------------------------------------------------------

enum Operand { kX, kValues, kIndices, kOperands };

// A call of either: a sort takes as many as there are.
struct Selection {
  DType dtype;
  RowLayout<kOperands> rows;  // along the dimension; outputs have k elements a row
  int64_t k;
  bool largest;
};

// The dimension that a call names; 0 of a tensor of rank 0, to which torch gives one to name.
int dimension(const Problem& problem);
// The tensor with a dimension moved to the end.
Tensor with_last(Tensor tensor, int dim);

// Whether rows follow each other without gaps in all tensors, as the bottom rungs want them.
inline bool is_dense(const Selection& call, Why& why) {
  const RowLayout<kOperands>& rows = call.rows;
  for (size_t operand = kX; operand < kOperands; ++operand) {
    const int64_t length = operand == kX ? rows.columns : call.k;
    const bool rows_follow =
        rows.rows <= 1 || (rows.outer == 1 && rows.strides[operand][0] == length);
    if (!why.unless(rows_follow && rows.inner[operand] == 1,
                    "takes contiguous tensors and their last dimension, but the rows of ", length,
                    " elements of operand ", operand, " are ", rows.strides[operand][0],
                    " apart, their elements ", rows.inner[operand])) {
      return false;
    }
  }
  return why.unless(rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows, not ",
                    rows.rows);
}

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr DTypes kSelected = kFloats | DTypes{DType::kI32};

inline constexpr Parameter kXIn = {.name = "x", .doc = "any shape of rank 0 to 6, any strides"};
inline constexpr Attribute kDim = {.name = "dim",
                                   .kind = Value::Kind::kInt,
                                   .standard = -1,
                                   .doc = "the dimension, negative from the end"};

// The tensor is [rows, columns], or, with another dimension, [rows, columns, inner].
inline constexpr std::string_view kTensorExtents[] = {"rows", "columns", "inner"};

// What both operations have in common; defined in operations.cpp and reference.cpp.
struct OverRows {
  using Call = Selection;
  static constexpr DTypes kDTypes = kSelected;
  static constexpr auto& kExtentNames = kTensorExtents;
  static constexpr int kOptionalExtents = 1;
  static constexpr Batch kBatch = Batch::kRows;

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations -------------------------------------------------------------------------------

struct TopK : OverRows {
  static constexpr std::string_view kName = "topk";
  static constexpr std::string_view kSummary =
      "the k largest or smallest elements along a dimension, and their places";
  static constexpr std::string_view kSource = "torch.topk";
  static constexpr std::string_view kFormula =
      "values[j] = x[indices[j]], the j-th largest; of equals the first";
  // Of equal elements torch.topk may take any: what is right is told by a stable sort, and
  // torch.topk is timed.
  static constexpr std::string_view kTorch =
      "tuple(t.narrow(dim, 0, k) for t in "
      "torch.sort(x, dim=dim, descending=largest, stable=True))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch", "torch.topk(x, k, dim, largest, sorted)"},
      {"quack",
       "quack.topk.topk_fwd(x, k) if largest and x.ndim == 2 and dim in (-1, 1) and "
       "x.shape[1] <= 4096 and x.shape[1].bit_count() == 1 and k <= 128 and k.bit_count() == 1 "
       "else refuse('takes powers of two, up to 128 of 4096')"},
  };
  static constexpr std::string_view kGradient =
      "(g_values.new_zeros(x.shape).scatter(dim, indices, g_values),)";
  static constexpr std::string_view kShape =
      "tuple(k if d == dim % x.ndim else n for d, n in enumerate(x.shape))";
  static constexpr Parameter kParameters[] = {
      kXIn,
      {.name = "values",
       .role = Parameter::Role::kOut,
       .doc = "best first, dtype of x, k along the dimension",
       .shape = kShape},
      {.name = "indices",
       .role = Parameter::Role::kOut,
       .doc = "their places along the dimension, i64, shape of values",
       .shape = kShape,
       .torch_dtype = "torch.int64"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "k", .kind = Value::Kind::kInt, .doc = "how many, 0 to the dimension's extent"},
      kDim,
      {.name = "largest",
       .kind = Value::Kind::kBool,
       .standard = true,
       .doc = "the largest, or else the smallest"},
      {.name = "sorted",
       .kind = Value::Kind::kBool,
       .standard = true,
       .doc = "best first; they are in that order without it, too"},
  };

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Sort : OverRows {
  static constexpr std::string_view kName = "sort";
  static constexpr std::string_view kSummary =
      "the elements along a dimension in order, and their places before";
  static constexpr std::string_view kSource = "torch.sort";
  static constexpr std::string_view kFormula =
      "values[j] = x[indices[j]], the j-th smallest; of equals the first";
  static constexpr std::string_view kTorch =
      "tuple(torch.sort(x, dim=dim, descending=descending, stable=True))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch", "torch.sort(x, dim=dim, descending=descending, stable=stable)"},
  };
  static constexpr std::string_view kGradient =
      "(g_values.new_zeros(x.shape).scatter(dim, indices, g_values),)";
  static constexpr Parameter kParameters[] = {
      kXIn,
      {.name = "values",
       .role = Parameter::Role::kOut,
       .doc = "in order, shape and dtype of x",
       .shape = "tuple(x.shape)"},
      {.name = "indices",
       .role = Parameter::Role::kOut,
       .doc = "where they were along the dimension, i64, shape of x",
       .shape = "tuple(x.shape)",
       .torch_dtype = "torch.int64"},
  };
  static constexpr Attribute kAttributes[] = {
      kDim,
      {.name = "descending",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "the largest first, or else the smallest"},
      {.name = "stable",
       .kind = Value::Kind::kBool,
       .standard = true,
       .doc = "equal elements keep their order; they do without it, too"},
  };

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::topk
