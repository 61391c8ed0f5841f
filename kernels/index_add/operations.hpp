// The operations: what indices along a dimension take from a tensor, and what they add to one.
//
//   index_add      y = x, and y[index[i]] += alpha * source[i] along the dimension
//   index_select   y[i] = x[index[i]] along the dimension
//   gather         y[.., i, ..] = x[.., index[.., i, ..], ..]
//   scatter_add    y = x, and y[.., index[.., i, ..], ..] += src[.., i, ..]
//
// An index outside of the dimension is found on the device: nothing is read or written by it, and
// the next call raises it.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/embedding/add_sorted.hpp"

namespace ws::index_add {

// ---- Calls ------------------------------------------------------------------------------------

// Elements of several tensors as one nest of loops, outermost first, with as few of them as all
// strides allow.
template <int kTensors, size_t kMostLoops = kMaxRank>
struct Nest {
  int loops = 0;
  int64_t count = 1;  // of elements
  std::array<int64_t, kMostLoops> extents{};
  std::array<std::array<int64_t, kMostLoops>, kTensors> strides{};

  // Where element i lies in each tensor.
  __host__ __device__ __forceinline__ void find(int64_t i, int64_t (&at)[kTensors]) const {
    for (int k = 0; k < kTensors; ++k) at[k] = 0;
    for (int loop = loops - 1; loop >= 0; --loop) {
      const int64_t outer = loop > 0 ? i / extents[loop] : 0;
      for (int k = 0; k < kTensors; ++k) at[k] += (i - outer * extents[loop]) * strides[k][loop];
      i = outer;
    }
  }
};

// What an element goes with: `each` is y of what reads by index, the source of what adds.
enum Operand {
  kEach,
  kIndex,
  kPosition,  // its index's number, for who tells of it
  kTable,     // where index 0 of its line would lie: in x of what reads, in y of what adds
  kSums,      // the same in a dense tensor of that shape
  kOperands
};
// All elements of what adds: a dense tensor of the shape of y lies beside y and x.
enum WholeOperand { kY, kX, kDense, kWholeOperands };

struct Indexed {
  DType dtype;
  bool wide_index;       // i64, else i32
  Nest<kOperands> nest;  // of the elements that have an index
  int64_t rows;          // that an index may name
  int64_t table_stride;  // from one to the next
  int64_t sums_stride;   // the same in the dense tensor
  const void* index;
  void* each;
  void* table;
};

// Whether the innermost loop's lines of tensor k start at multiples of so many elements.
template <int kTensors, size_t kMostLoops>
bool lines_start_at(const Nest<kTensors, kMostLoops>& nest, size_t k, const void* data,
                    int64_t elements, int64_t size) {
  bool fits = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(elements * size) == 0;
  for (size_t loop = 0; static_cast<int>(loop) + 1 < nest.loops; ++loop) {
    fits = fits && nest.strides[k][loop] % elements == 0;
  }
  return fits;
}

// What adds, as columns along the dimension, which are at most two loops.
enum ColumnOperand {
  kColumnY,
  kColumnX,
  kColumnSource,
  kColumnIndex,
  kColumnPosition,
  kColumnOperands
};
struct Columns {
  // Of y's; none where there are more loops, or columns without indices.
  Nest<kColumnOperands, 2> nest{.count = 0};
  std::array<int64_t, kColumnOperands> steps{};  // from one element of a column to the next
  int64_t indices = 0;                           // of a column

  bool have_same_indices() const;
  // Whether there is enough to add to so many rows of columns that lie side by side.
  bool are_worth_owning(int64_t rows) const;
  // Elements of an access to a column and its neighbours: 4 where all tensors allow it, else 1.
  int width(const Indexed& call, const void* x) const;
};

struct Adding : Indexed {
  Nest<kWholeOperands> whole;
  const void* x;
  float alpha = 1;
  Columns columns{};

  bool is_in_place() const { return x != nullptr && x == table; }
};

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr DTypes kMoved = kFloats | DTypes{DType::kI64, DType::kI32};

// A tensor is [outer, rows, inner], and the dimension the middle one. `layout`: a sum of what is
// unusual.
enum CaseLayout : uint8_t {
  kNarrowIndex = 1,
  kTransposed = 2,
  kStridedIndex = 4,
  kIndexOfRow = 8,  // of gather: one for all that lies behind it, at a stride of 0
};
inline constexpr std::string_view kExtents[] = {"indices", "inner", "rows", "outer", "layout"};

inline constexpr Attribute kDim = {
    .name = "dim", .kind = Value::Kind::kInt, .doc = "the dimension, negative from the end"};

struct AlongDimension {
  static constexpr auto& kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 2;

  static void fill(const Problem& problem, int index, uint64_t seed);
  static int64_t items(const Problem& problem, const Parameter& output);
};

// ---- Operations -------------------------------------------------------------------------------

struct IndexAdd : AlongDimension {
  static constexpr std::string_view kName = "index_add";
  static constexpr std::string_view kSummary = "rows added to those of a tensor that indices name";
  static constexpr std::string_view kSource = "torch.index_add";
  static constexpr std::string_view kFormula = "y = x, y[index[i]] += alpha * source[i] along dim";
  static constexpr std::string_view kTorch = "torch.index_add(x, dim, index, source, alpha=alpha)";
  static constexpr std::string_view kGradient =
      "(g, None, alpha * ops.index_select(g, index, dim=dim))";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr bool kInPlace = true;
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape and strides"},
      {.name = "index", .doc = "i64 or i32, 1-d, as long as source along dim"},
      {.name = "source", .doc = "dtype of x, its shape but along dim"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of x, whose memory it may be"}};
  static constexpr Attribute kAttributes[] = {kDim,
                                              {.name = "alpha",
                                               .kind = Value::Kind::kFloat,
                                               .standard = 1.0,
                                               .doc = "what times the source"}};
  struct Call : Adding {
    int64_t index_stride;
    bool has_lines;  // the elements of an index are at most two loops in all tensors
    embedding::AddSorted lines;
    std::array<int64_t, 2> sums_strides;  // of those loops in the dense tensor
  };

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Tolerance tolerance_in(const Problem& problem, const Parameter& output, DType accumulate);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct IndexSelect : AlongDimension {
  static constexpr std::string_view kName = "index_select";
  static constexpr std::string_view kSummary =
      "rows of a tensor by their numbers, along a dimension";
  static constexpr std::string_view kSource = "torch.index_select";
  static constexpr std::string_view kFormula = "y[i] = x[index[i]] along dim";
  static constexpr std::string_view kTorch = "torch.index_select(x, dim, index)";
  static constexpr std::string_view kGradient =
      "(ops.index_add(g.new_zeros(x.shape), index, g, dim=dim), None)";
  static constexpr DTypes kDTypes = kMoved;
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape and strides"},
      {.name = "index", .doc = "i64 or i32, 1-d"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "dtype of x, its shape but along dim",
       .shape = "tuple(index.numel() if d == dim % x.ndim else n for d, n in enumerate(x.shape))"}};
  static constexpr Attribute kAttributes[] = {kDim};
  struct Call : Indexed {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Gather : AlongDimension {
  static constexpr std::string_view kName = "gather";
  static constexpr std::string_view kSummary = "elements by their places along a dimension";
  static constexpr std::string_view kSource = "torch.gather";
  static constexpr std::string_view kFormula = "y[.., i, ..] = x[.., index[.., i, ..], ..]";
  static constexpr std::string_view kTorch = "torch.gather(x, dim, index)";
  static constexpr std::string_view kGradient =
      "(ops.scatter_add(g.new_zeros(x.shape), index, g, dim=dim), None)";
  static constexpr DTypes kDTypes = kMoved;
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape and strides"},
      {.name = "index", .doc = "i64 or i32, rank of x, no longer than x but along dim"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape of index, dtype of x",
       .shape = "index.shape"}};
  static constexpr Attribute kAttributes[] = {kDim};
  struct Call : Indexed {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct ScatterAdd : AlongDimension {
  static constexpr std::string_view kName = "scatter_add";
  static constexpr std::string_view kSummary = "elements added at their places along a dimension";
  static constexpr std::string_view kSource = "torch.scatter_add";
  static constexpr std::string_view kFormula =
      "y = x, y[.., index[.., i, ..], ..] += src[.., i, ..]";
  static constexpr std::string_view kTorch = "torch.scatter_add(x, dim, index, src)";
  static constexpr std::string_view kGradient = "(g, None, ops.gather(g, index, dim=dim))";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr bool kInPlace = true;
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape and strides"},
      {.name = "index",
       .doc = "i64 or i32, rank of x, no longer than src, nor than x but along dim"},
      {.name = "src", .doc = "dtype and rank of x"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of x, whose memory it may be"}};
  static constexpr Attribute kAttributes[] = {kDim};
  struct Call : Adding {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::index_add
