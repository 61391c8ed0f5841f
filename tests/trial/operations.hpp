// A family that exists to try the contracts: several outputs of different dtypes, optional inputs
// and outputs, an in-out tensor, every kind of attribute, errors found on the device, workspace
// with a zeroed prefix. tests/python runs its tests on it as on any other.
#pragma once

#include "catalogue/row.hpp"

namespace ws::trial {

inline constexpr DTypes kIndices = {DType::kI64};
inline constexpr Parameter kX = {.name = "x", .doc = "array of any strides"};
inline constexpr Parameter kLikeX = {.name = "y", .role = Parameter::Role::kOut, .doc = "like x"};
inline constexpr std::string_view kRowsAndColumns[] = {"rows", "columns"};

// What the operations have in common, whatever they compute.
struct Common {
  static constexpr std::string_view kSource = "";
  static constexpr auto& kExtentNames = kRowsAndColumns;
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
};

// The largest element of each row and its place: two outputs, of two dtypes.
struct RowMax : Common {
  static constexpr std::string_view kName = "row_max";
  static constexpr std::string_view kSummary = "largest element of each row, and where it is";
  static constexpr std::string_view kFormula = "value[r] = max(x[r][c]) = x[r][place[r]]";
  static constexpr std::string_view kTorch = "tuple(torch.max(x, -1))";
  static constexpr std::string_view kGradient =
      "(torch.zeros_like(x).scatter(-1, place.unsqueeze(-1), g_value.unsqueeze(-1)),)";
  static constexpr Parameter kParameters[] = {kX,
                                              {.name = "value",
                                               .role = Parameter::Role::kOut,
                                               .doc = "x without its last dimension",
                                               .shape = "x.shape[:-1]"},
                                              {.name = "place",
                                               .role = Parameter::Role::kOut,
                                               .doc = "i64, of the same shape",
                                               .shape = "x.shape[:-1]",
                                               .torch_dtype = "torch.int64"}};
  static constexpr DTypes kDTypes = kFloats;

  struct Call {
    Tensor x;
    Tensor value;
    Tensor place;
  };
  static Call call(const Problem& problem) {
    return {problem.tensor(0), problem.tensor(1), problem.tensor(2)};
  }
  static void infer(Problem& problem);
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

// x times a weight a column, and the sums of its rows: both optional.
struct Weigh : Common {
  static constexpr std::string_view kName = "weigh";
  static constexpr std::string_view kSummary = "rows weighted by column, and their sums";
  static constexpr std::string_view kFormula = "y[r][c] = x[r][c] weight[c], total[r] = sum y[r]";
  static constexpr std::string_view kTorch =
      "((y := x if weight is None else x * weight), y.sum(-1) if with_total else None)";
  static constexpr std::string_view kGradient =
      "(((gy := (0 if g_y is None else g_y) + (0 if g_total is None else"
      " g_total.unsqueeze(-1).to(x.dtype))) * (1 if weight is None else weight) + 0 * x),"
      " None if weight is None else sum_to(gy * x, weight.shape))";
  static constexpr Parameter kParameters[] = {
      kX,
      {.name = "weight", .optional = true, .doc = "one value a column, of the same dtype"},
      kLikeX,
      {.name = "total",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "f32, x without its last dimension, where with_total is set",
       .shape = "x.shape[:-1] if with_total else None",
       .torch_dtype = "torch.float32"}};
  static constexpr Attribute kAttributes[] = {{.name = "with_total",
                                               .kind = Value::Kind::kBool,
                                               .standard = false,
                                               .doc = "whether the sums are wanted"}};
  static constexpr DTypes kDTypes = kFloats;

  struct Call {
    Tensor x;
    Tensor weight;
    Tensor y;
    Tensor total;
  };
  static Call call(const Problem& problem) {
    return {problem.tensor(0), problem.tensor(1), problem.tensor(2), problem.tensor(3)};
  }
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

// In the caller's own memory.
struct ScaleInPlace : Common {
  static constexpr std::string_view kName = "scale_in_place";
  static constexpr std::string_view kSummary = "multiplies an array by a number, where it is";
  static constexpr std::string_view kFormula = "x[i] = factor x[i]";
  static constexpr std::string_view kTorch = "x * factor";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .role = Parameter::Role::kInOut, .doc = "read and written"}};
  static constexpr Attribute kAttributes[] = {
      {.name = "factor", .kind = Value::Kind::kFloat, .standard = 2.0, .doc = "what times"}};
  static constexpr DTypes kDTypes = kFloats;

  struct Call {
    Tensor x;
    float factor;
  };
  static Call call(const Problem& problem) {
    return {problem.tensor(0), static_cast<float>(problem.number("factor"))};
  }
  static void infer(Problem& /*problem*/) {}
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

// Sums over any dimensions.
struct Total : Common {
  static constexpr std::string_view kName = "total";
  static constexpr std::string_view kSummary = "sum over dimensions, in f32";
  static constexpr std::string_view kFormula = "y[k] = sum over dim of x[k][dim]";
  static constexpr std::string_view kTorch =
      "torch.sum(x, tuple(range(x.dim())) if dim is None else dim, keepdim).float()";
  static constexpr std::string_view kGradient =
      "(g.reshape(reduced_shape(x.shape, dim, True)).expand(x.shape).to(x.dtype),)";
  static constexpr Parameter kParameters[] = {kX,
                                              {.name = "y",
                                               .role = Parameter::Role::kOut,
                                               .doc = "f32, x without the summed dimensions",
                                               .shape = "reduced_shape(x.shape, dim, keepdim)",
                                               .torch_dtype = "torch.float32"}};
  static constexpr Attribute kAttributes[] = {{.name = "dim",
                                               .kind = Value::Kind::kDims,
                                               .standard = Value::absent(),
                                               .doc = "dimensions to sum over; none: all"},
                                              {.name = "keepdim",
                                               .kind = Value::Kind::kBool,
                                               .standard = false,
                                               .doc = "whether they stay, with an extent of 1"}};
  static constexpr DTypes kDTypes = kFloats;

  struct Call {
    Tensor kept;     // x's dimensions that stay
    Tensor reduced;  // and those that go
    Tensor y;
  };
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

// Exact 64-bit integers; an attribute without a default.
struct Shift : Common {
  static constexpr std::string_view kName = "shift";
  static constexpr std::string_view kSummary = "adds an integer to integers";
  static constexpr std::string_view kFormula = "y[i] = x[i] + by";
  static constexpr std::string_view kTorch = "x + by";
  static constexpr Parameter kParameters[] = {kX, kLikeX};
  static constexpr Attribute kAttributes[] = {
      {.name = "by", .kind = Value::Kind::kInt, .doc = "what is added, exactly"}};
  static constexpr DTypes kDTypes = kIndices;

  struct Call {
    Tensor x;
    Tensor y;
    int64_t by;
  };
  static Call call(const Problem& problem) {
    return {problem.tensor(0), problem.tensor(1), problem.integer("by")};
  }
  static void infer(Problem& problem);
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

// Attributes that may be absent; out may be x.
struct Clip : Common {
  static constexpr std::string_view kName = "clip";
  static constexpr std::string_view kSummary = "elements brought within bounds";
  static constexpr std::string_view kFormula = "y[i] = min(max(x[i], low), high)";
  static constexpr std::string_view kTorch =
      "x.clone() if low is None and high is None else torch.clamp(x, low, high)";
  static constexpr std::string_view kGradient = "(torch.where(y == x, g, 0),)";
  static constexpr Parameter kParameters[] = {kX, kLikeX};
  static constexpr Attribute kAttributes[] = {{.name = "low",
                                               .kind = Value::Kind::kFloat,
                                               .standard = Value::absent(),
                                               .doc = "the least value; none: no bound"},
                                              {.name = "high",
                                               .kind = Value::Kind::kFloat,
                                               .standard = Value::absent(),
                                               .doc = "the greatest value; none: no bound"}};
  static constexpr DTypes kDTypes = kFloats;
  static constexpr bool kInPlace = true;

  struct Call {
    Tensor x;
    Tensor y;
    float low;
    float high;
  };
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

// Elements by their index, which may be wrong: an error that only the device finds.
struct Take : Common {
  static constexpr std::string_view kName = "take";
  static constexpr std::string_view kSummary = "elements of a list by index";
  static constexpr std::string_view kFormula = "y[i] = x[index[i]]";
  static constexpr std::string_view kTorch = "x[index]";
  static constexpr std::string_view kGradient =
      "(torch.zeros_like(x).index_add(0, index.flatten(), g.flatten()), None)";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "one dimension"},
      {.name = "index", .doc = "i64, any shape, from 0 up to the length of x"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape of index, dtype of x",
       .shape = "index.shape"}};
  static constexpr DTypes kDTypes = kFloats;

  struct Call {
    Tensor x;
    Tensor index;
    Tensor y;
  };
  static Call call(const Problem& problem) {
    return {problem.tensor(0), problem.tensor(1), problem.tensor(2)};
  }
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

}  // namespace ws::trial
