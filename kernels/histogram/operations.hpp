// The operations: how often each value occurs, and how many numbers lie between edges.
//
//   count_bins     counts[b] = #{i : x[i] = b}
//   sum_bins       sums[b]   = sum(weights[i] : x[i] = b)
//   histc          counts[b] = #{i : x[i] in the b-th of equal parts of [min, max]}
//   count_between  counts[b] = #{i : edges[b] <= x[i] < edges[b + 1]}, the last with its end
//   sum_between    sums[b]   = sum(weights[i] : edges[b] <= x[i] < edges[b + 1])
//
// Numbers outside of [min, max] or of the edges, and NaN, are counted nowhere, as torch does it; a
// value that is no bin of count_bins or sum_bins is an error that the device finds: it is counted
// nowhere, and told with its place.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/reduce/operations.hpp"

namespace ws::histogram {

// ---- What rungs see of a call -------------------------------------------------------------------

// The elements as loops, outermost first, in the order in which they lie; loops that walk on where
// the next one ends are one. strides[0] is of x, strides[1] of the weights.
struct Counted {
  const void* x = nullptr;
  const float* weights = nullptr;  // of sum_bins and sum_between
  void* output = nullptr;
  DType dtype = DType::kI32;
  DType output_dtype = DType::kI64;
  int64_t output_stride = 1;
  int64_t count = 0;  // of elements
  int64_t bins = 0;
  uint8_t loops = 0;
  std::array<reduce::Loop, kMaxRank> loop{};

  // Elements lie side by side, from the first on.
  bool is_dense() const {
    return loops == 0 || (loops == 1 && loop[0].strides[0] == 1 &&
                          (weights == nullptr || loop[0].strides[1] == 1));
  }
};

// ---- What the operations share ------------------------------------------------------------------

inline constexpr DTypes kValues = {DType::kI32, DType::kI64, DType::kU8};
inline constexpr DTypes kWords = {DType::kI32, DType::kI64};
inline constexpr int64_t kMostBins = (int64_t{1} << 31) - 1;

inline constexpr Attribute kBins = {
    .name = "bins",
    .kind = Value::Kind::kInt,
    .standard = int64_t{256},
    .doc =
        "how many: the values are from 0 to bins - 1, another is an error that the device finds"};

inline constexpr Parameter kValuesIn = {.name = "x",
                                        .doc = "i32, i64 or u8, any shape and strides"};
inline constexpr Parameter kNumbersIn = {.name = "x",
                                         .doc = "f32, f16 or bf16, any shape and strides"};
// How a case's elements are spread over bins.
enum Spread : int64_t {
  kUniform,   // every bin alike
  kSkewed,    // nine of ten in one bin
  kAllEqual,  // one bin
};
inline constexpr std::string_view kExtents[] = {"elements", "spread", "step"};
inline constexpr std::string_view kEdgesExtents[] = {"elements", "bins", "spread", "step"};

struct Counting {
  static constexpr auto& kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 2;

  static Cases cases();
  static Cost cost(const Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
};

// ---- The operations -----------------------------------------------------------------------------

struct CountBins : Counting {
  static constexpr std::string_view kName = "count_bins";
  static constexpr std::string_view kSummary = "How often each value from 0 to bins - 1 occurs";
  static constexpr std::string_view kSource = "torch.bincount";
  static constexpr std::string_view kFormula = "counts[b] = #{i : x[i] = b}";
  static constexpr std::string_view kTorch = "torch.bincount(x.flatten(), minlength=bins)";
  static constexpr Parameter kParameters[] = {kValuesIn,
                                              {.name = "counts",
                                               .role = Parameter::Role::kOut,
                                               .doc = "i64 [bins]",
                                               .shape = "(bins,)",
                                               .torch_dtype = "torch.int64"}};
  static constexpr Attribute kAttributes[] = {kBins};
  static constexpr DTypes kDTypes = kValues;
  struct Call : Counted {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct SumBins : Counting {
  static constexpr std::string_view kName = "sum_bins";
  static constexpr std::string_view kSummary = "Sum of the weights that go with each value";
  static constexpr std::string_view kSource = "torch.bincount with weights";
  static constexpr std::string_view kFormula = "sums[b] = sum(weights[i] : x[i] = b)";
  static constexpr std::string_view kTorch =
      "weights.new_zeros(bins).index_add(0, x.flatten().long(), weights.flatten())";
  // It has no gradient.
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_bincount", "torch.bincount(x.flatten(), weights.flatten(), minlength=bins)"}};
  static constexpr std::string_view kGradient = "(None, g[x.long()])";
  static constexpr Parameter kParameters[] = {
      kValuesIn,
      {.name = "weights", .doc = "f32, the shape of x, any strides"},
      {.name = "sums",
       .role = Parameter::Role::kOut,
       .doc = "f32 [bins]",
       .shape = "(bins,)",
       .torch_dtype = "torch.float32"}};
  static constexpr Attribute kAttributes[] = {kBins};
  static constexpr DTypes kDTypes = kValues;
  struct Call : Counted {};

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Histc : Counting {
  static constexpr std::string_view kName = "histc";
  static constexpr std::string_view kSummary =
      "How many numbers lie in each of equal parts of a range";
  static constexpr std::string_view kSource = "torch.histc";
  static constexpr std::string_view kFormula =
      "counts[b] = #{i : b = floor((x[i] - min) * bins / (max - min))}, max in the last";
  static constexpr std::string_view kTorch = "torch.histc(x.float(), bins, min, max)";
  static constexpr Parameter kParameters[] = {kNumbersIn,
                                              {.name = "counts",
                                               .role = Parameter::Role::kOut,
                                               .doc = "f32 [bins]: exact counts, rounded once",
                                               .shape = "(bins,)",
                                               .torch_dtype = "torch.float32"}};
  static constexpr Attribute kAttributes[] = {
      {.name = "bins", .kind = Value::Kind::kInt, .standard = int64_t{100}, .doc = "how many"},
      {.name = "min",
       .kind = Value::Kind::kFloat,
       .standard = 0.0,
       .doc = "where the first bin begins; below max, both finite"},
      {.name = "max",
       .kind = Value::Kind::kFloat,
       .standard = 1.0,
       .doc = "where the last bin ends, which has it"}};
  static constexpr DTypes kDTypes = kFloats;
  struct Call : Counted {
    float min = 0;
    float max = 0;
  };

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct CountBetween : Counting {
  static constexpr std::string_view kName = "count_between";
  static constexpr std::string_view kSummary = "How many numbers lie between neighbouring edges";
  static constexpr std::string_view kSource = "torch.histogram";
  static constexpr std::string_view kFormula =
      "counts[b] = #{i : edges[b] <= x[i] < edges[b + 1]}, the last with its end";
  static constexpr std::string_view kTorch =
      "torch.bincount(torch.bucketize(x.float().flatten(), edges, right=True) - "
      "(x.float().flatten() == edges[-1]).long(), "
      "minlength=edges.shape[0] + 1)[1:edges.shape[0]]";
  static constexpr Parameter kParameters[] = {
      kNumbersIn,
      {.name = "edges",
       .doc = "f32 [bins + 1], none below the one before it: that is an error which the device "
              "finds, and all counts are 0"},
      {.name = "counts",
       .role = Parameter::Role::kOut,
       .doc = "i64 [bins]",
       .shape = "(edges.shape[0] - 1,)",
       .torch_dtype = "torch.int64"}};
  static constexpr DTypes kDTypes = kFloats;
  struct Call : Counted {
    const float* edges = nullptr;
    int64_t edge_stride = 1;
  };

  static constexpr auto& kExtentNames = kEdgesExtents;

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct SumBetween : Counting {
  static constexpr std::string_view kName = "sum_between";
  static constexpr std::string_view kSummary =
      "Sum of the weights that go with the numbers between neighbouring edges";
  static constexpr std::string_view kSource = "torch.histogram with a weight";
  static constexpr std::string_view kFormula =
      "sums[b] = sum(weights[i] : edges[b] <= x[i] < edges[b + 1]), the last with its end";
  static constexpr std::string_view kTorch = R"(
values = x.float().flatten()
bin = torch.bucketize(values, edges, right=True) - (values == edges[-1]).long()
bins = edges.shape[0] - 1
return weights.new_zeros(bins + 2).index_add(0, bin, weights.flatten())[1:bins + 1])";
  static constexpr Parameter kParameters[] = {
      kNumbersIn,
      {.name = "edges",
       .doc = "f32 [bins + 1], none below the one before it: that is an error which the device "
              "finds, and all sums are 0"},
      {.name = "weights", .doc = "f32, the shape of x, any strides"},
      {.name = "sums",
       .role = Parameter::Role::kOut,
       .doc = "f32 [bins]",
       .shape = "(edges.shape[0] - 1,)",
       .torch_dtype = "torch.float32"}};
  static constexpr DTypes kDTypes = kFloats;
  struct Call : CountBetween::Call {};

  static constexpr auto& kExtentNames = kEdgesExtents;

  static void infer(Problem& problem);
  static Call call(const Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::histogram
