// What the operations of `elementwise` are: shapes, the formulas in double precision, cost and
// tolerance, and the problems to verify and to time.
#pragma once

#include <cmath>
#include <numbers>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"
#include "kernels/elementwise/layout.hpp"

namespace ws::elementwise {

// The number of the dtype nearest to `value`. Through f32: to f16 and bf16 that rounds twice, as
// the operations themselves do, which differs for no sum or product but subnormal bf16.
inline double round_to(DType dtype, double value) {
  const auto wide = static_cast<float>(value);
  switch (dtype) {
    case DType::kF16: return to_float(from_float<half>(wide));
    case DType::kBf16: return to_float(from_float<bf16>(wide));
    default: return wide;
  }
}

// ---- Formulas: written from the definition, sharing nothing with functors.hpp -----------------

// `flops`: what a plain evaluation of the formula counts, a function call as one.
struct AddFormula {
  static constexpr int kInputs = 2;
  static constexpr double kFlops = 1;
  static constexpr bool kIsExact = true;
  static double value(const Problem&, double a, double b) { return a + b; }
};

struct MulFormula {
  static constexpr int kInputs = 2;
  static constexpr double kFlops = 1;
  static constexpr bool kIsExact = true;
  static double value(const Problem&, double a, double b) { return a * b; }
};

struct ReluFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 1;
  static constexpr bool kIsExact = true;
  static double value(const Problem&, double x) { return std::isnan(x) || x >= 0 ? x : 0; }
};

struct EluFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 3;
  static constexpr bool kIsExact = false;
  static double value(const Problem& p, double x) {
    return x > 0 ? x : p.attribute(0) * std::expm1(x);
  }
};

struct GeluFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 8;
  static constexpr bool kIsExact = false;
  static double value(const Problem& p, double x) {
    if (p.attribute(0) == 0) return x * (0.5 * std::erfc(-x / std::sqrt(2.0)));
    const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    // 1 + tanh(u) = 2 / (1 + e^-2u), which keeps its digits where tanh(u) is close to -1.
    return x / (1 + std::exp(-2 * u));
  }
};

struct SwishFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 4;
  static constexpr bool kIsExact = false;
  static double value(const Problem&, double x) { return x / (1 + std::exp(-x)); }
};

struct HardswishFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 5;
  static constexpr bool kIsExact = false;
  static double value(const Problem&, double x) {
    return x * (std::min(std::max(x + 3, 0.0), 6.0) / 6);
  }
};

struct HardshrinkFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 2;
  static constexpr bool kIsExact = true;
  static double value(const Problem& p, double x) {
    const double lambd = round_to(p.tensor(0).dtype, p.attribute(0));
    return x >= -lambd && x <= lambd ? 0 : x;
  }
};

struct SigmoidFormula {
  static constexpr int kInputs = 1;
  static constexpr double kFlops = 4;
  static constexpr bool kIsExact = false;
  static double value(const Problem&, double x) { return 1 / (1 + std::exp(-x)); }
};

// ---- Shapes -----------------------------------------------------------------------------------

// The output has the inputs' shape; two inputs are broadcast against each other as in NumPy.
template <class Formula>
void infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const std::string_view name = problem.operation->name;
  if (!problem.operation->dtypes.has(a.dtype)) {
    throw InvalidArgument(concatenate(name, " takes f32, f16 and bf16, got ", a.describe()));
  }
  if constexpr (Formula::kInputs == 1) {
    problem.tensor(1) = Tensor::dense(a.dtype, {a.shape.data(), static_cast<size_t>(a.rank)});
  } else {
    const Tensor& b = problem.tensor(1);
    if (a.dtype != b.dtype) {
      throw InvalidArgument(concatenate(name, " needs inputs of one dtype, got ", a.describe(),
                                        " and ", b.describe()));
    }
    const int rank = std::max(a.rank, b.rank);
    std::array<int64_t, kMaxRank> shape{};
    for (int d = 0; d < rank; ++d) {
      const auto extent = [&](const Tensor& t) {
        const int at = d - (rank - t.rank);
        return at < 0 ? 1 : t.shape[static_cast<size_t>(at)];
      };
      if (extent(a) != extent(b) && extent(a) != 1 && extent(b) != 1) {
        throw InvalidArgument(concatenate(name, " cannot broadcast ", a.describe(), " and ",
                                          b.describe(), ": extents ", extent(a), " and ", extent(b),
                                          " of dimension ", d, " differ"));
      }
      shape[static_cast<size_t>(d)] = extent(a) == 1 ? extent(b) : extent(a);
    }
    problem.tensor(2) = Tensor::dense(a.dtype, {shape.data(), static_cast<size_t>(rank)});
  }
}

// Extent 2 of a case: how the inputs lie.
enum class Inputs : int64_t {
  kRows,        // row-major, all alike
  kRowVector,   // the second input is one row, [columns]
  kColumn,      // the second input is one column, [rows, 1]
  kTransposed,  // the first input is column-major
  kSize
};

template <class Formula>
Problem make(const Operation& operation, const Case& chosen, DType dtype) {
  const int64_t rows = chosen.extents[0];
  const int64_t columns = chosen.extents[1];
  const auto inputs = static_cast<Inputs>(chosen.extents[2]);
  require(rows >= 0 && columns >= 0, operation.name, ": rows and columns cannot be negative, got ",
          rows, " x ", columns);
  const bool takes_two = Formula::kInputs == 2;
  require(inputs == Inputs::kRows || inputs == Inputs::kTransposed ||
              (takes_two && inputs > Inputs::kRows && inputs < Inputs::kSize),
          operation.name, ": inputs=", chosen.extents[2], " is none of 0 (rows), 3 (transposed)",
          takes_two ? ", 1 (second is one row), 2 (second is one column)" : "");
  Problem problem;
  problem.operation = &operation;
  problem.tensor_count = Formula::kInputs;
  for (int k = 0; k < Formula::kInputs; ++k) {
    Tensor& tensor = problem.tensor(k);
    tensor = Tensor::dense(dtype, {rows, columns});
    tensor.strides[0] += chosen.padding;
  }
  if (inputs == Inputs::kRowVector) problem.tensor(1) = Tensor::dense(dtype, {columns});
  if (inputs == Inputs::kColumn) problem.tensor(1) = Tensor::dense(dtype, {rows, 1});
  if (inputs == Inputs::kTransposed) {
    problem.tensor(0).strides[0] = 1;
    problem.tensor(0).strides[1] = rows + chosen.padding;
  }
  return problem;
}

// ---- Cost, tolerance, reference ---------------------------------------------------------------

// Elements that lie behind a tensor: a broadcast dimension has one.
inline double distinct_elements(const Tensor& tensor) {
  double count = 1;
  for (int d = 0; d < tensor.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    if (tensor.shape[i] == 0) return 0;
    if (tensor.strides[i] != 0) count *= static_cast<double>(tensor.shape[i]);
  }
  return count;
}

template <class Formula>
Cost cost(const Problem& problem) {
  Cost cost;
  for (int k = 0; k < problem.tensor_count; ++k) {
    const Tensor& tensor = problem.tensor(k);
    cost.bytes += distinct_elements(tensor) * static_cast<double>(size_of(tensor.dtype));
  }
  const Tensor& output = problem.tensor(Formula::kInputs);
  cost.flops = Formula::kFlops * static_cast<double>(output.elements());
  return cost;
}

inline int64_t items(const Problem& problem) {
  return problem.tensor(problem.tensor_count - 1).elements();
}

// Exact operations have one right result, which the reference rounds to. The others may err by 2e-6
// before they round: half a unit in the last place of f16 and bf16 (2^-11, 2^-8) dwarfs that.
// Below `floor` the error is absolute: f16 is subnormal there, exp flushes subnormals, gelu's fit
// is absolute. All of a few elements may lie there, so only many are held to the norm.
template <class Formula>
Tolerance tolerance(const Problem& problem) {
  if (Formula::kIsExact) return {};
  Tolerance tolerance;
  switch (problem.tensor(0).dtype) {
    case DType::kF16: tolerance = {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 6.2e-5}; break;
    case DType::kBf16: tolerance = {.relative = 4e-3, .worst = 4e-3, .floor = 1e-5}; break;
    default: tolerance = {.relative = 2e-6, .worst = 2e-6, .floor = 1e-2}; break;
  }
  if (items(problem) < 64) tolerance.relative = 0;
  return tolerance;
}

template <class Formula>
void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& output = problem.tensor(Formula::kInputs);
  std::array<Tensor, Formula::kInputs> views;
  for (int k = 0; k < Formula::kInputs; ++k) {
    views[static_cast<size_t>(k)] = expand(problem.tensor(k), output);
  }
  for (int64_t i = slice.first; i < slice.last; ++i) {
    double& y = expected[0][i - slice.first];
    if constexpr (Formula::kInputs == 1) {
      y = Formula::value(problem, element(views[0], i));
    } else {
      y = Formula::value(problem, element(views[0], i), element(views[1], i));
    }
    if (Formula::kIsExact) y = round_to(output.dtype, y);
  }
}

// ---- Inputs -----------------------------------------------------------------------------------

// Standard normal would never leave [-6, 6]: one element in eight comes from where the formulas
// bend, round to nothing or overflow on the way.
inline void fill_with_corners(const Problem& problem, int index, uint64_t seed) {
  static constexpr std::array<double, 24> kCorners = {
      0.0,   -0.0,   0.5, -0.5, 3.0,  -3.0,  6.0,  -6.0,  1e-4, -1e-4, 0.4,  -0.4,
      100.0, -100.0, 9.0, -9.0, 15.0, -15.0, 88.0, -88.0, 2.9,  -2.9,  1e-7, -1e-7};
  fill_with(problem.tensor(index), [seed](int64_t i) {
    const uint64_t draw = random_bits(~seed, static_cast<uint64_t>(i));
    return draw % 8 == 0 ? kCorners[draw / 8 % kCorners.size()]
                         : 2 * random_normal(seed, static_cast<uint64_t>(i));
  });
}

// ---- Cases ------------------------------------------------------------------------------------

inline constexpr std::array<std::string_view, 3> kExtentNames = {"rows", "columns", "inputs"};

inline constexpr Case kSmoke[] = {
    {.extents = {3, 67}},
    {.extents = {2, 64}, .offset = 1},
};

// A vector holds 2, 4 or 8 elements; a block takes 256 of them. The shapes straddle all of these.
inline constexpr Case kVerify[] = {
    {.extents = {0, 5}},
    {.extents = {1, 0}},
    {.extents = {1, 1}},
    {.extents = {1, 2}},
    {.extents = {1, 3}},
    {.extents = {1, 4}},
    {.extents = {1, 5}},
    {.extents = {1, 7}},
    {.extents = {1, 8}},
    {.extents = {1, 9}},
    {.extents = {1, 255}},
    {.extents = {1, 256}},
    {.extents = {1, 257}},
    {.extents = {1, 2047}},
    {.extents = {1, 2048}},
    {.extents = {1, 2049}},
    {.extents = {1, 4095}},
    {.extents = {1, 4096}},
    {.extents = {1, 4097}},
    {.extents = {1, 8191}},
    {.extents = {1, 8192}},
    {.extents = {1, 8193}},
    {.extents = {127, 131}},
    {.extents = {1, 3}, .offset = 1},
    {.extents = {1, 8200}, .offset = 1},
    {.extents = {31, 33}, .offset = 3},
    {.extents = {16, 64}, .offset = 4},
    {.extents = {0, 17}, .padding = 3},
    {.extents = {5, 17}, .padding = 3},
    {.extents = {64, 32}, .padding = 32},
    {.extents = {33, 65, 3}},
    {.extents = {16, 8, 3}, .offset = 1, .padding = 1},
};

inline constexpr Case kVerifyTwoInputs[] = {
    {.extents = {7, 65, 1}},
    {.extents = {65, 7, 2}},
    {.extents = {1, 300, 2}},
    {.extents = {300, 1, 1}},
    {.extents = {16, 8, 1}, .offset = 1, .padding = 1},
};

inline constexpr Case kBench[] = {
    {.extents = {16384, 4096}},
    {.extents = {1, 1 << 20}},
    {.extents = {1, 1000}},
};

// One attribute that is not the default.
constexpr Case with_attribute(int64_t rows, int64_t columns, double value) {
  return {.extents = {rows, columns}, .attributes = {value}, .has_attributes = true};
}

template <size_t N, size_t M>
constexpr std::array<Case, N + M> both(const Case (&first)[N], const Case (&second)[M]) {
  std::array<Case, N + M> all{};
  for (size_t i = 0; i < N; ++i) all[i] = first[i];
  for (size_t i = 0; i < M; ++i) all[N + i] = second[i];
  return all;
}

inline constexpr Case kTanh[] = {with_attribute(5, 67, 1)};
inline constexpr Case kAlphas[] = {with_attribute(5, 67, 0.3), with_attribute(5, 67, 0),
                                   with_attribute(5, 67, -1.5)};
inline constexpr Case kLambds[] = {with_attribute(5, 67, 0.1), with_attribute(5, 67, 0),
                                   with_attribute(5, 67, 3), with_attribute(5, 67, -1)};
inline constexpr Case kBenchTanh[] = {with_attribute(16384, 4096, 1)};

inline constexpr auto kVerifyBinary = both(kVerify, kVerifyTwoInputs);
inline constexpr auto kSmokeGelu = both(kSmoke, kTanh);
inline constexpr auto kVerifyGelu = both(kVerify, kTanh);
inline constexpr auto kBenchGelu = both(kBench, kBenchTanh);
inline constexpr auto kVerifyElu = both(kVerify, kAlphas);
inline constexpr auto kVerifyHardshrink = both(kVerify, kLambds);

}  // namespace ws::elementwise
