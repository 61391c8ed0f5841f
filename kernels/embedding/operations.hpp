// The operations: rows of a table by their numbers, and the gradient of the table.
//
//   embedding            y[i] = weight[index[i]]
//   embedding_backward   dweight[v] = sum(dy[i] : index[i] = v), 0 where v is padding_idx
//
// An index outside of the table is found on the device: nothing of its row is read or written, and
// the next call raises it.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"

namespace ws::embedding {

// ---- Calls ------------------------------------------------------------------------------------

enum Operand { kRow, kIndex, kOperands };

// A row for each index: what is looked up, or its gradient.
struct Lookup {
  DType dtype;
  bool wide_index;            // i64, else i32
  RowLayout<kOperands> rows;  // an index is a row that repeats one element
  void* table;                // the weight, or its gradient
  int64_t table_rows;
  std::array<int64_t, 2> strides;  // of the table: from row to row, from column to column

  // Both at one stride, and side by side: what bottom rungs take.
  bool is_dense() const {
    const auto follow = [&](Operand k, int64_t stride) {
      return rows.rows <= 1 || (rows.outer == 1 && rows.stride(k) == stride);
    };
    return follow(kRow, rows.columns) && follow(kIndex, 1) && rows.inner[kRow] == 1 &&
           (table_rows <= 1 || strides[0] == rows.columns) &&
           (rows.columns <= 1 || strides[1] == 1);
  }
};

struct GradientLookup : Lookup {
  int64_t ignored;  // the row that gets nothing; -1: none
  bool by_count;    // divided by how often its index occurs
};

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr DTypes kIndexTypes = {DType::kI64, DType::kI32};

// `narrow` indices are i32; `outer` > 0 puts a dimension before that of the indices, which lies
// between them in memory; `step` > 1 leaves gaps between elements.
inline constexpr std::string_view kExtents[] = {"indices", "columns", "rows",
                                                "narrow",  "outer",   "step"};
inline constexpr std::string_view kGradientExtents[] = {"indices", "columns", "narrow", "outer",
                                                        "step"};

inline constexpr Parameter kIndexIn = {.name = "index",
                                       .rows = Parameter::Rows::kLeading,
                                       .doc = "i64 or i32, up to 5 dimensions: rows of the table"};
inline constexpr Attribute kPadding = {
    .name = "padding_idx",
    .kind = Value::Kind::kInt,
    .standard = Value::absent(),
    .doc = "a row whose gradient is 0, negative from the end; the result is its row as it is"};
inline constexpr Attribute kByFrequency = {
    .name = "scale_grad_by_freq",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "a row's gradient is divided by how often its index occurs"};

struct OfTable {
  static constexpr DTypes kDTypes = kFloats;
  static constexpr int kOptionalExtents = 3;

  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations -------------------------------------------------------------------------------

struct Embedding : OfTable {
  static constexpr auto& kExtentNames = kExtents;
  static constexpr std::string_view kName = "embedding";
  static constexpr std::string_view kSummary = "rows of a table by their numbers";
  static constexpr std::string_view kSource = "torch.nn.functional.embedding";
  static constexpr std::string_view kFormula = "y[i, :] = weight[index[i], :]";
  static constexpr std::string_view kTorch =
      "torch.nn.functional.embedding(index, weight, padding_idx)";
  static constexpr std::string_view kGradient =
      "(ops.embedding_backward(g, index, num_weights=weight.shape[0], padding_idx=padding_idx, "
      "scale_grad_by_freq=scale_grad_by_freq), None)";
  static constexpr Parameter kParameters[] = {
      {.name = "weight", .rows = Parameter::Rows::kShared, .doc = "[V, D], any strides"},
      kIndexIn,
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[*index.shape, D], dtype of weight",
       .shape = "(*index.shape, weight.shape[1])"}};
  static constexpr Attribute kAttributes[] = {kPadding, kByFrequency};
  struct Call : Lookup {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Cost cost_of_data(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct EmbeddingBackward : OfTable {
  static constexpr auto& kExtentNames = kGradientExtents;
  static constexpr std::string_view kName = "embedding_backward";
  static constexpr std::string_view kSummary = "the gradient of a table of which rows were taken";
  static constexpr std::string_view kSource = "torch.nn.functional.embedding";
  static constexpr std::string_view kFormula = "dweight[v, :] = sum(dy[i, :] : index[i] = v)";
  // The function that torch's users reach; its own gradient forgets scale_grad_by_freq.
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch",
       "torch.ops.aten.embedding_dense_backward(dy, index, num_weights, "
       "-1 if padding_idx is None else padding_idx % num_weights, scale_grad_by_freq)"}};
  static constexpr std::string_view kTorch = R"(
padding = -1 if padding_idx is None else padding_idx % num_weights
dweight = torch.ops.aten.embedding_dense_backward(dy, index, num_weights, padding, False)
if scale_grad_by_freq:
    counts = torch.bincount(index.flatten(), minlength=num_weights)
    dweight = dweight / counts.clamp(min=1)[:, None]
return dweight)";
  static constexpr std::string_view kGradient = R"(
rows = ops.embedding(g, index)
if padding_idx is not None:
    rows = rows * (index != padding_idx % num_weights)[..., None]
if scale_grad_by_freq:
    rows = rows / torch.bincount(index.flatten(), minlength=num_weights)[index][..., None]
return rows, None)";
  static constexpr Parameter kParameters[] = {{.name = "dy", .doc = "[*index.shape, D]"},
                                              kIndexIn,
                                              {.name = "dweight",
                                               .role = Parameter::Role::kOut,
                                               .rows = Parameter::Rows::kShared,
                                               .doc = "[num_weights, D], dtype of dy",
                                               .shape = "(num_weights, dy.shape[-1])"}};
  static constexpr Attribute kAttributes[] = {
      {.name = "num_weights", .kind = Value::Kind::kInt, .doc = "rows of the table"},
      kPadding,
      kByFrequency};
  struct Call : GradientLookup {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::embedding
