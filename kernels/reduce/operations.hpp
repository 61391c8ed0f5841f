// The operations: reductions over any dimensions of a tensor, and the dot product of two vectors.
//
// NaN, ties and empty sets are torch's: a NaN wins in amax and argmax, of equal elements the first
// is argmax's (which torch leaves open), the sum of nothing is 0, its mean NaN, its maximum an
// error.
#pragma once

#include "catalogue/catalogue.hpp"

namespace ws::reduce {

// ---- What rungs see of a call -------------------------------------------------------------------

// One loop over a tensor: how often, and how far each step goes, in elements.
struct Loop {
  int64_t extent = 1;
  std::array<int64_t, 2> strides{};  // reduced: of each input; kept: of the input, of the output
};
// Appends a loop, as part of the last one where that ends where this one goes on.
void append(std::array<Loop, kMaxRank>& loops, uint8_t& count, const Loop& loop);

// The loops of a call, outermost first, without those of one step; loops that walk on where the
// next one ends are one. Where the order of elements does not matter, reduced loops are sorted, so
// that a transposed tensor is read as it lies.
struct Reduction {
  std::array<const void*, 2> inputs{};
  void* output = nullptr;
  DType dtype = DType::kF32;
  DType output_dtype = DType::kF32;
  uint8_t kept_loops = 0;
  uint8_t reduced_loops = 0;
  int64_t outputs = 1;  // of the kept loops
  int64_t count = 1;    // of the reduced loops: elements behind each output
  std::array<Loop, kMaxRank> kept{};
  std::array<Loop, kMaxRank> reduced{};

  template <class T>
  const T* input(int k) const {
    return static_cast<const T*>(inputs[static_cast<size_t>(k)]);
  }
  // Elements behind an output lie side by side, and outputs are one loop: a matrix's rows.
  bool has_rows() const;
  // Outputs lie side by side as their elements do, in at most two loops; each adds up one loop.
  bool has_columns() const;
};

// ---- What the operations share ------------------------------------------------------------------

inline constexpr Attribute kDim = {
    .name = "dim",
    .kind = Value::Kind::kDims,
    .standard = Value::absent(),
    .doc = "dimensions to reduce, negative ones from the end; none: all"};
inline constexpr Attribute kOneDim = {
    .name = "dim",
    .kind = Value::Kind::kDims,
    .standard = Value::absent(),
    .doc = "the dimension to reduce, negative from the end; none: all, as one row"};
inline constexpr Attribute kKeepdim = {.name = "keepdim",
                                       .kind = Value::Kind::kBool,
                                       .standard = false,
                                       .doc = "reduced dimensions stay, with extent 1"};
inline constexpr Attribute kAllowReducedPrecision = {
    .name = "allow_reduced_precision",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc =
        "a promise that f16 or bf16 accumulators will do: partial sums stay below 65504, and an "
        "error of some 2^-8 of their size is welcome"};
inline constexpr std::string_view kSumDTypes[] = {"float32", "int32", "int64"};
inline constexpr Attribute kResultDType = {
    .name = "dtype",
    .kind = Value::Kind::kChoice,
    .standard = Value::absent(),
    .choices = kSumDTypes,
    .doc =
        "of the result, where it holds each element exactly; none: that of x, int64 for integers"};

inline constexpr Attribute kDimAttributes[] = {kDim, kKeepdim};
inline constexpr Attribute kOneDimAttributes[] = {kOneDim, kKeepdim};

inline constexpr std::string_view kReducedShape = "reduced_shape(x.shape, dim, keepdim)";
inline constexpr Parameter kSameDType[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y",
     .role = Parameter::Role::kOut,
     .doc = "what is left of the shape, dtype of x; f32 of e4m3 and e5m2",
     .shape = kReducedShape,
     .torch_dtype = "torch.float32 if x.dtype.itemsize == 1 and x.dtype.is_floating_point else "
                    "x.dtype"},
};
inline constexpr std::string_view kSumDType =
    "getattr(torch, dtype) if dtype is not None else torch.int64 if not x.dtype.is_floating_point "
    "else torch.float32 if x.dtype.itemsize == 1 else x.dtype";
inline constexpr Parameter kSummed[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y",
     .role = Parameter::Role::kOut,
     .doc = "what is left of the shape; dtype of x, i64 of integers and bool, f32 of e4m3 and "
            "e5m2, or as `dtype` says",
     .shape = kReducedShape,
     .torch_dtype = kSumDType},
};
inline constexpr Parameter kSelected[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y",
     .role = Parameter::Role::kOut,
     .doc = "what is left of the shape, dtype of x",
     .shape = kReducedShape},
};
inline constexpr Parameter kIndexed[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y",
     .role = Parameter::Role::kOut,
     .doc = "what is left of the shape, i64: places along `dim`, or in all of x, row-major",
     .shape = kReducedShape,
     .torch_dtype = "torch.int64"},
};
inline constexpr Parameter kTested[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y",
     .role = Parameter::Role::kOut,
     .doc = "what is left of the shape, bool; u8 of u8",
     .shape = kReducedShape,
     .torch_dtype = "torch.uint8 if x.dtype == torch.uint8 else torch.bool"},
};

// Extents are those of the tensor, a 0 left out of it (kEmpty is an extent of 0); `swapped` lays
// its last two dimensions out the other way round, `step` > 1 leaves gaps between elements. Padding
// is between rows.
inline constexpr int64_t kEmpty = -1;
inline constexpr std::string_view kTensorExtents[] = {"n0", "n1", "n2", "n3", "swapped", "step"};

inline constexpr DTypes kIntegers = {DType::kI64, DType::kI32, DType::kI8, DType::kU8,
                                     DType::kBool};
inline constexpr DTypes kFp8 = {DType::kE4m3, DType::kE5m2};
inline constexpr DTypes kF64 = {DType::kF64};
inline constexpr DTypes kF32 = {DType::kF32};
inline constexpr DTypes kF16 = {DType::kF16};
inline constexpr DTypes kBf16 = {DType::kBf16};
inline constexpr DTypes kNarrowAndWide = kFloats | kFp8 | kF64;

struct OverDims {
  static constexpr auto& kAttributes = kDimAttributes;
  static constexpr auto& kExtentNames = kTensorExtents;
  static constexpr int kOptionalExtents = 5;
  static constexpr Batch kBatch = Batch::kRows;

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
};

// ---- The operations -----------------------------------------------------------------------------

// kFast is what the rungs for speed take: fewer kernels to compile. `strided` takes all kDTypes.

struct Sum : OverDims {
  static constexpr std::string_view kName = "sum";
  static constexpr std::string_view kSummary = "Sum over dimensions";
  static constexpr std::string_view kSource = "torch.sum";
  static constexpr std::string_view kFormula = "y = sum(x[i])";
  static constexpr std::string_view kTorch =
      "torch.sum(x, dim, keepdim, dtype=None if dtype is None else getattr(torch, dtype))";
  static constexpr std::string_view kGradient =
      "(g.reshape(reduced_shape(x.shape, dim, True)).expand(x.shape).to(x.dtype),)";
  static constexpr auto& kParameters = kSummed;
  static constexpr Attribute kAttributes[] = {kDim, kKeepdim, kResultDType, kAllowReducedPrecision};
  static constexpr DTypes kDTypes = kNarrowAndWide | kIntegers;
  static constexpr DTypes kFast = kFloats | kFp8 | DTypes{DType::kI8, DType::kI32};
  struct Call : Reduction {
    bool reduced_precision = false;
  };

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Mean : OverDims {
  static constexpr std::string_view kName = "mean";
  static constexpr std::string_view kSummary = "Mean over dimensions";
  static constexpr std::string_view kSource = "torch.mean";
  static constexpr std::string_view kFormula = "y = sum(x[i]) / count";
  static constexpr std::string_view kTorch = "torch.mean(x, dim, keepdim)";
  static constexpr std::string_view kGradient =
      "((g * (g.numel() / max(x.numel(), 1))).reshape(reduced_shape(x.shape, dim, True))"
      ".expand(x.shape),)";
  static constexpr auto& kParameters = kSameDType;
  static constexpr DTypes kDTypes = kNarrowAndWide;
  static constexpr DTypes kFast = kFloats | kFp8;
  struct Call : Reduction {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Prod : OverDims {
  static constexpr std::string_view kName = "prod";
  static constexpr std::string_view kSummary = "Product over a dimension, or of all";
  static constexpr std::string_view kSource = "torch.prod";
  static constexpr std::string_view kFormula = "y = product(x[i])";
  static constexpr std::string_view kTorch =
      "torch.prod(x, dtype=None if dtype is None else getattr(torch, dtype))"
      ".reshape([1] * x.ndim if keepdim else []) if dim is None else "
      "torch.prod(x, dim if isinstance(dim, int) else dim[0], keepdim, "
      "dtype=None if dtype is None else getattr(torch, dtype))";
  static constexpr auto& kParameters = kSummed;
  static constexpr Attribute kAttributes[] = {kOneDim, kKeepdim, kResultDType};
  static constexpr DTypes kDTypes = kNarrowAndWide | kIntegers;
  static constexpr DTypes kFast = kFloats;
  struct Call : Reduction {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

// amax, amin.
struct Extremum : OverDims {
  static constexpr auto& kParameters = kSelected;
  static constexpr DTypes kDTypes = kNarrowAndWide | kIntegers;
  static constexpr DTypes kFast = kFloats | kFp8 | DTypes{DType::kI8};
  static constexpr std::string_view kGradient =
      "((x == y.reshape(reduced_shape(x.shape, dim, True))) * "
      "(g.reshape(reduced_shape(x.shape, dim, True)) / "
      "sum_to((x == y.reshape(reduced_shape(x.shape, dim, True))).to(g.dtype), "
      "reduced_shape(x.shape, dim, True))),)";
  struct Call : Reduction {
    bool least = false;
  };

  static void infer(Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
};
struct Amax : Extremum {
  static constexpr std::string_view kName = "amax";
  static constexpr std::string_view kSummary = "Largest element over dimensions";
  static constexpr std::string_view kSource = "torch.amax";
  static constexpr std::string_view kFormula = "y = max(x[i])";
  static constexpr std::string_view kTorch = "torch.amax(x, () if dim is None else dim, keepdim)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};
struct Amin : Extremum {
  static constexpr std::string_view kName = "amin";
  static constexpr std::string_view kSummary = "Smallest element over dimensions";
  static constexpr std::string_view kSource = "torch.amin";
  static constexpr std::string_view kFormula = "y = min(x[i])";
  static constexpr std::string_view kTorch = "torch.amin(x, () if dim is None else dim, keepdim)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

// argmax, argmin.
struct ArgExtremum : OverDims {
  static constexpr auto& kParameters = kIndexed;
  static constexpr auto& kAttributes = kOneDimAttributes;
  static constexpr DTypes kDTypes =
      kNarrowAndWide | DTypes{DType::kI64, DType::kI32, DType::kI8, DType::kU8};
  static constexpr DTypes kFast = kFloats;
  struct Call : Reduction {
    bool least = false;
  };

  static void infer(Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
};
struct Argmax : ArgExtremum {
  static constexpr std::string_view kName = "argmax";
  static constexpr std::string_view kSummary = "Place of the largest element, the first of several";
  static constexpr std::string_view kSource = "torch.argmax";
  static constexpr std::string_view kFormula = "y = min(i : x[i] = max(x))";
  static constexpr std::string_view kTorch =
      "torch.argmax(x, dim[0] if isinstance(dim, tuple) else dim, keepdim)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};
struct Argmin : ArgExtremum {
  static constexpr std::string_view kName = "argmin";
  static constexpr std::string_view kSummary =
      "Place of the smallest element, the first of several";
  static constexpr std::string_view kSource = "torch.argmin";
  static constexpr std::string_view kFormula = "y = min(i : x[i] = min(x))";
  static constexpr std::string_view kTorch =
      "torch.argmin(x, dim[0] if isinstance(dim, tuple) else dim, keepdim)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

// any, all.
struct Test : OverDims {
  static constexpr auto& kParameters = kTested;
  static constexpr DTypes kDTypes = kFloats | kF64 | kIntegers;
  static constexpr DTypes kFast = kFloats | DTypes{DType::kU8, DType::kBool};
  struct Call : Reduction {
    bool all = false;
  };

  static void infer(Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
};
struct Any : Test {
  static constexpr std::string_view kName = "any";
  static constexpr std::string_view kSummary = "Whether any element is not zero";
  static constexpr std::string_view kSource = "torch.any";
  static constexpr std::string_view kFormula = "y = any(x[i] != 0)";
  static constexpr std::string_view kTorch =
      "torch.any(x) if dim is None and not keepdim else "
      "torch.any(x, tuple(range(x.ndim)) if dim is None else dim, keepdim)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};
struct All : Test {
  static constexpr std::string_view kName = "all";
  static constexpr std::string_view kSummary = "Whether no element is zero";
  static constexpr std::string_view kSource = "torch.all";
  static constexpr std::string_view kFormula = "y = all(x[i] != 0)";
  static constexpr std::string_view kTorch =
      "torch.all(x) if dim is None and not keepdim else "
      "torch.all(x, tuple(range(x.ndim)) if dim is None else dim, keepdim)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct VectorNorm : OverDims {
  static constexpr std::string_view kName = "vector_norm";
  static constexpr std::string_view kSummary = "Norm over dimensions, of order 1, 2 or infinity";
  static constexpr std::string_view kSource = "torch.linalg.vector_norm";
  static constexpr std::string_view kFormula = "y = sum(|x[i]|^ord)^(1/ord), or max(|x[i]|)";
  static constexpr std::string_view kTorch = "torch.linalg.vector_norm(x, ord, dim, keepdim)";
  static constexpr std::string_view kGradient =
      "((x * (g / y).masked_fill(y == 0, 0).reshape(reduced_shape(x.shape, dim, True))) "
      "if ord == 2 else x.sgn() * g.reshape(reduced_shape(x.shape, dim, True)) if ord == 1 else "
      "x.sgn() * (x.abs() == y.reshape(reduced_shape(x.shape, dim, True))) * "
      "(g.reshape(reduced_shape(x.shape, dim, True)) / "
      "sum_to((x.abs() == y.reshape(reduced_shape(x.shape, dim, True))).to(g.dtype), "
      "reduced_shape(x.shape, dim, True))),)";
  static constexpr auto& kParameters = kSelected;
  static constexpr Attribute kAttributes[] = {
      {.name = "ord",
       .kind = Value::Kind::kFloat,
       .standard = 2.0,
       .doc = "1: sum of magnitudes, 2: Euclid's, inf: the largest magnitude"},
      kDim,
      kKeepdim};
  static constexpr DTypes kDTypes = kFloats | kF64;
  static constexpr DTypes kFast = kFloats;
  enum class Order : uint8_t { kOne, kTwo, kInfinity };
  struct Call : Reduction {
    Order order = Order::kTwo;
  };

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Dot {
  static constexpr std::string_view kName = "dot";
  static constexpr std::string_view kSummary = "Dot product of two vectors";
  static constexpr std::string_view kSource = "torch.dot";
  static constexpr std::string_view kFormula = "y = sum(a[i] * b[i])";
  static constexpr std::string_view kTorch = "torch.dot(a, b)";
  static constexpr std::string_view kGradient = "(g * b, g * a)";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "a vector, any stride"},
      {.name = "b", .doc = "length and dtype of a, any stride"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "a single element, dtype of a",
       .shape = "()"},
  };
  static constexpr Attribute kAttributes[] = {kAllowReducedPrecision};
  static constexpr std::string_view kExtentNames[] = {"count", "step"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats | kF64;
  static constexpr DTypes kFast = kFloats;
  struct Call : Reduction {
    bool reduced_precision = false;
  };

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::reduce
