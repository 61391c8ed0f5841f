// The operations: each element of a line becomes what is made of all elements up to it.
//
// A NaN reaches all elements behind it, in maxima and minima too, as in torch. Whole numbers add up
// in their own width or in 64 bits, and wrap around.
#pragma once

#include "catalogue/catalogue.hpp"
#include "kernels/reduce/operations.hpp"

namespace ws::scan {

using reduce::kBf16;
using reduce::kF16;
using reduce::kF32;
using reduce::Loop;

// ---- What rungs see of a call -------------------------------------------------------------------

// Lines of `count` elements, and the loops over lines, outermost first, without those of one step;
// loops that walk on where the next one ends are one. Strides are of the input and of the output.
struct Scan {
  const void* input = nullptr;
  void* output = nullptr;
  DType dtype = DType::kF32;
  DType output_dtype = DType::kF32;
  bool exclusive = false;
  bool reverse = false;
  uint8_t loops = 0;
  int64_t count = 1;
  int64_t lines = 1;
  std::array<int64_t, 2> strides{};  // from element to element of a line
  std::array<Loop, kMaxRank> line{};

  // Elements of a line lie side by side, and lines are one loop: a matrix's rows.
  bool has_rows() const { return count > 0 && strides[0] == 1 && strides[1] == 1 && loops <= 1; }
  // From line to line of has_rows(), in elements.
  int64_t pitch(int tensor) const { return loops == 0 ? 0 : line[0].strides[tensor == 0 ? 0 : 1]; }
};

// ---- What the operations share ------------------------------------------------------------------

inline constexpr Attribute kDim = {.name = "dim",
                                   .kind = Value::Kind::kInt,
                                   .standard = -1,
                                   .doc = "along which to scan, negative from the end"};
inline constexpr Attribute kExclusive = {
    .name = "exclusive",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "without the element itself: the first is that of no elements"};
inline constexpr Attribute kReverse = {
    .name = "reverse", .kind = Value::Kind::kBool, .standard = false, .doc = "from the line's end"};
inline constexpr std::string_view kWholeNumbers[] = {"int32", "int64"};
inline constexpr Attribute kResultDType = {
    .name = "dtype",
    .kind = Value::Kind::kChoice,
    .standard = Value::absent(),
    .choices = kWholeNumbers,
    .doc = "of the result of whole numbers; none: int64, as in torch"};

inline constexpr Parameter kSameDType[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y", .role = Parameter::Role::kOut, .doc = "shape and dtype of x"},
};
inline constexpr Parameter kAddedUp[] = {
    {.name = "x", .doc = "any shape of rank 0 to 6, any strides"},
    {.name = "y",
     .role = Parameter::Role::kOut,
     .doc = "shape of x; its dtype, i64 of whole numbers, or as `dtype` says",
     .torch_dtype = "x.dtype if x.dtype.is_floating_point else torch.int32 if dtype == 'int32' "
                    "else torch.int64"},
};

inline constexpr DTypes kWhole = {DType::kI32, DType::kI64};

// Extents are those of the tensor, a 0 left out of it (kEmpty is an extent of 0); `swapped` lays
// its last two dimensions out the other way round, `step` > 1 leaves gaps between elements. Padding
// is between rows.
inline constexpr int64_t kEmpty = -1;
inline constexpr std::string_view kTensorExtents[] = {"n0", "n1", "n2", "swapped", "step"};

struct OverDim {
  static constexpr auto& kExtentNames = kTensorExtents;
  static constexpr int kOptionalExtents = 4;
  static constexpr Batch kBatch = Batch::kRows;

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
};

// ---- The operations -----------------------------------------------------------------------------

struct Cumsum : OverDim {
  static constexpr std::string_view kName = "cumsum";
  static constexpr std::string_view kSummary = "Sums of all elements up to each";
  static constexpr std::string_view kSource = "torch.cumsum";
  static constexpr std::string_view kFormula = "y[i] = sum(x[j], j <= i)";
  static constexpr std::string_view kTorch =
      "scanned(lambda x, dim: torch.cumsum(x, dim, dtype=None if dtype is None else "
      "getattr(torch, dtype)), x, dim, 0, exclusive, reverse)";
  static constexpr std::string_view kGradient =
      "(ops.cumsum(g, dim=dim, exclusive=exclusive, reverse=not reverse),)";
  static constexpr auto& kParameters = kAddedUp;
  static constexpr Attribute kAttributes[] = {kDim, kExclusive, kReverse, kResultDType};
  static constexpr DTypes kDTypes = kFloats | kWhole;
  struct Call : Scan {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Cumprod : OverDim {
  static constexpr std::string_view kName = "cumprod";
  static constexpr std::string_view kSummary = "Products of all elements up to each";
  static constexpr std::string_view kSource = "torch.cumprod";
  static constexpr std::string_view kFormula = "y[i] = product(x[j], j <= i)";
  static constexpr std::string_view kTorch =
      "scanned(lambda x, dim: torch.cumprod(x, dim, dtype=None if dtype is None else "
      "getattr(torch, dtype)), x, dim, 1, exclusive, reverse)";
  // Before the first zero of a line that is a sum of g * y, over x; at that zero a sum of g by the
  // products of all others; behind it nothing.
  static constexpr std::string_view kGradient = R"(
    zero = x == 0
    seen = ops.cumsum(zero.int(), dim=dim, reverse=reverse)
    first = zero & (seen == 1)
    others = ops.cumprod(torch.where(first, 1, x), dim=dim, exclusive=exclusive, reverse=reverse)
    def back(products):
        return ops.cumsum(g * products, dim=dim, exclusive=exclusive, reverse=not reverse)
    before = torch.where(seen > 0, 0, back(y) / torch.where(zero, 1, x))
    return (torch.where(first, back(others), before),)
)";
  static constexpr auto& kParameters = kAddedUp;
  static constexpr Attribute kAttributes[] = {kDim, kExclusive, kReverse, kResultDType};
  static constexpr DTypes kDTypes = kFloats | kWhole;
  struct Call : Scan {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Logcumsumexp : OverDim {
  static constexpr std::string_view kName = "logcumsumexp";
  static constexpr std::string_view kSummary =
      "Logarithms of the sums of exponentials of all elements up to each";
  static constexpr std::string_view kSource = "torch.logcumsumexp";
  static constexpr std::string_view kFormula = "y[i] = log(sum(exp(x[j]), j <= i))";
  static constexpr std::string_view kTorch =
      "scanned(torch.logcumsumexp, x, dim, -torch.inf, exclusive, reverse)";
  // The sum of g[i] * exp(x[j] - y[i]) over all i that j has gone into: positive and negative g
  // each by its logarithm, so that nothing overflows.
  static constexpr std::string_view kGradient = R"(
    lows = torch.full_like(y, -torch.inf)
    into = y > -torch.inf
    def part(size):
        logs = torch.where((size > 0) & into, size.abs().log() - y, lows)
        back = ops.logcumsumexp(logs, dim=dim, exclusive=exclusive, reverse=not reverse)
        return (back + x).exp()
    return (part(g) - part(-g),)
)";
  static constexpr auto& kParameters = kSameDType;
  static constexpr Attribute kAttributes[] = {kDim, kExclusive, kReverse};
  static constexpr DTypes kDTypes = kFloats;
  struct Call : Scan {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

// scan_max, scan_min: the values of torch.cummax and torch.cummin, which give places as well. As
// theirs, a gradient goes to the latest of equal elements.
struct Extremum : OverDim {
  static constexpr auto& kParameters = kSameDType;
  static constexpr Attribute kAttributes[] = {kDim, kExclusive, kReverse};
  static constexpr DTypes kDTypes = kFloats | kWhole;
  struct Call : Scan {
    bool least = false;
  };

  static void infer(Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};
struct ScanMax : Extremum {
  static constexpr std::string_view kName = "scan_max";
  static constexpr std::string_view kSummary = "Largest of all elements up to each";
  static constexpr std::string_view kSource = "torch.cummax, its values";
  static constexpr std::string_view kFormula = "y[i] = max(x[j], j <= i)";
  static constexpr std::string_view kTorch =
      "scanned(lambda x, dim: torch.cummax(x, dim).values, x, dim, -torch.inf if "
      "x.dtype.is_floating_point else torch.iinfo(x.dtype).min, exclusive, reverse)";
  static constexpr std::string_view kGradient =
      "(to_latest(ops, (x >= y) | x.isnan(), g, dim, exclusive, reverse),)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Peer> peers();
};
struct ScanMin : Extremum {
  static constexpr std::string_view kName = "scan_min";
  static constexpr std::string_view kSummary = "Smallest of all elements up to each";
  static constexpr std::string_view kSource = "torch.cummin, its values";
  static constexpr std::string_view kFormula = "y[i] = min(x[j], j <= i)";
  static constexpr std::string_view kTorch =
      "scanned(lambda x, dim: torch.cummin(x, dim).values, x, dim, torch.inf if "
      "x.dtype.is_floating_point else torch.iinfo(x.dtype).max, exclusive, reverse)";
  static constexpr std::string_view kGradient =
      "(to_latest(ops, (x <= y) | x.isnan(), g, dim, exclusive, reverse),)";

  static Call call(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

}  // namespace ws::scan
