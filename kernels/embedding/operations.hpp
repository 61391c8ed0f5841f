// The operations: rows of a table by their numbers, one by one or as bags, and the gradient of the
// table.
//
//   embedding            y[i] = weight[index[i]]
//   embedding_backward   dweight[v] = sum(dy[i] : index[i] = v), 0 where v is padding_idx
//   embedding_bag        y[b] = sum, mean or maximum of weight[index[i]] over the i of bag b
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

enum class BagMode : uint8_t { kSum, kMean, kMax };

// Entry k of a bag lies at bag * of_bag + k * step, k counted through all bags.
struct EntryStrides {
  int64_t of_bag = 0;
  int64_t step = 1;
};

struct BagCall {
  DType dtype{};
  bool wide_index = true;  // i64, else i32
  bool is_dense = false;   // all tensors are contiguous
  BagMode mode{};
  const void* table = nullptr;
  int64_t table_rows = 0;
  int64_t columns = 0;
  std::array<int64_t, 2> strides{};  // of the table: from row to row, from column to column
  const void* index = nullptr;
  EntryStrides index_strides;
  const void* factors = nullptr;  // of entries; null: all are 1, or there is no entry
  EntryStrides factor_strides;
  bool has_offsets = false;  // else bags have `length` entries
  const void* offsets = nullptr;
  int64_t offset_count = 0;
  int64_t offset_step = 1;
  int64_t length = 0;
  int64_t entries = 0;
  int64_t ignored = -1;  // the row that does not count; -1: none
  void* y = nullptr;
  int64_t bags = 0;
  std::array<int64_t, 2> y_strides{};
};

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr DTypes kIndexTypes = {DType::kI64, DType::kI32};

// `narrow` indices are i32; `outer` > 0 puts a dimension before that of the indices, which lies
// between them in memory; `step` > 1 leaves gaps between elements.
inline constexpr std::string_view kExtents[] = {"indices", "columns", "rows",
                                                "narrow",  "outer",   "step"};
inline constexpr std::string_view kGradientExtents[] = {"indices", "columns", "narrow", "outer",
                                                        "step"};

// `options`: a sum of BagOptions.
inline constexpr std::string_view kBagExtents[] = {"bags", "indices", "columns", "rows", "options"};
enum BagOptions : uint8_t {
  kNarrowIndices = 1,
  kOfOneLength = 2,  // 2-d indices, of indices / bags each
  kHasFactors = 4,
  kGaps = 8,
  kTransposed = 16,  // of table and result, and of 2-d indices
};

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

struct EmbeddingBag : OfTable {
  static constexpr auto& kExtentNames = kBagExtents;
  static constexpr int kOptionalExtents = 1;
  static constexpr std::string_view kName = "embedding_bag";
  static constexpr std::string_view kSummary =
      "sums, means or maxima of a table's rows, of a bag of indices each";
  static constexpr std::string_view kSource = "torch.nn.functional.embedding_bag";
  static constexpr std::string_view kFormula =
      "y[b, :] = mode(per_sample_weights[i] * weight[index[i], :] : offsets[b] <= i < "
      "offsets[b + 1]), 0 of an empty bag";
  static constexpr std::string_view kTorch =
      "torch.nn.functional.embedding_bag(index, weight, offsets, mode=mode, "
      "scale_grad_by_freq=scale_grad_by_freq, per_sample_weights=per_sample_weights, "
      "include_last_offset=include_last_offset, padding_idx=padding_idx)";
  // Entries of no bag have bag `bags`, whose gradient is 0. That of a maximum goes to the first
  // entry that has it. What is only moved stays in its dtype, what is multiplied is in f32.
  static constexpr std::string_view kGradient = R"(
bags, entries = g.shape[0], index.numel()
flat = index.flatten()
place = torch.arange(entries, dtype=index.dtype, device=index.device)
if offsets is None:
    bag = torch.arange(bags, device=index.device)[:, None].expand(index.shape).flatten()
else:
    bag = torch.searchsorted(offsets.contiguous(), place, right=True) - 1
    bag = bag % (bags + 1)
counts = bag < bags
if padding_idx is not None:
    counts = counts & (flat != padding_idx % weight.shape[0])
is_moved = mode != "mean" and per_sample_weights is None
of_bag = torch.nn.functional.pad(g if is_moved else g.float(), (0, 0, 0, 1))
if mode == "mean":
    sizes = of_bag.new_zeros(bags + 1).index_add(0, bag, counts.float())
    of_bag = of_bag / sizes.clamp(min=1)[:, None]
d = of_bag[bag]
if mode == "max":
    top = torch.nn.functional.pad(y, (0, 0, 0, 1))[bag]
    has_it = torch.isclose(ops.embedding(weight, flat), top, 0, 0, equal_nan=True)
    places = torch.where(has_it & counts[:, None], place[:, None], entries)
    first = places.new_full((bags + 1, g.shape[1]), entries)
    first = first.scatter_reduce(0, bag[:, None].expand_as(places), places, "amin")
    d = torch.where(first[bag] == place[:, None], d, 0)
dfactors = None
if per_sample_weights is not None:
    dfactors = (d * ops.embedding(weight, flat).float()).sum(-1).masked_fill(~counts, 0)
    dfactors = dfactors.to(weight.dtype).view(index.shape)
    d = d * per_sample_weights.flatten().float()[:, None]
dweight = ops.embedding_backward(d, flat, num_weights=weight.shape[0], padding_idx=padding_idx,
                                 scale_grad_by_freq=scale_grad_by_freq)
return dweight.to(weight.dtype), None, None, dfactors)";
  static constexpr Parameter kParameters[] = {
      {.name = "weight", .doc = "[V, D], any strides"},
      {.name = "index",
       .doc = "[N], i64 or i32: rows of the table; or [B, L], bags of L each, without offsets"},
      {.name = "offsets",
       .optional = true,
       .doc = "[B], dtype of index, where each bag begins: from 0 on, never less than the one "
              "before; the last bag ends with index"},
      {.name = "per_sample_weights",
       .optional = true,
       .doc = "shape of index, dtype of weight: what rows are multiplied with; of sums alone"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[B, D], dtype of weight",
       .shape = "(index.shape[0] if offsets is None else "
                "offsets.shape[0] - (1 if include_last_offset else 0), weight.shape[1])"}};
  static constexpr std::string_view kModes[] = {"sum", "mean", "max"};
  static constexpr Attribute kAttributes[] = {
      {.name = "mode",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(1),
       .choices = kModes,
       .doc = "what becomes of a bag's rows; a maximum is the first where several are equal"},
      {.name = "include_last_offset",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "offsets is [B + 1]: the last is where the last bag ends"},
      {.name = "padding_idx",
       .kind = Value::Kind::kInt,
       .standard = Value::absent(),
       .doc = "a row that does not count, and whose gradient is 0, negative from the end"},
      kByFrequency};
  using Call = BagCall;

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Cost cost_of_data(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::embedding
