// What the operations of `elementwise` compute, in double precision; their shapes, cost and
// tolerance, and the problems to verify and to time.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "catalogue/fill.hpp"
#include "kernels/elementwise/operations.hpp"

namespace ws::elementwise {

// ---- Formulas: written from the definition, sharing nothing with functors.hpp -----------------

double Add::formula(const Call& call, double a, double b) {
  return a + static_cast<float>(call.alpha) * b;
}
double Mul::formula(const Call& /*call*/, double a, double b) { return a * b; }
double Relu::formula(const Call& /*call*/, double x) { return std::isnan(x) || x >= 0 ? x : 0; }
double Elu::formula(const Call& call, double x) { return x > 0 ? x : call.alpha * std::expm1(x); }
double Elu::backward(const Call& call, double grad, double x) {
  return x > 0 ? grad : grad * call.alpha * std::exp(x);
}
double Gelu::formula(const Call& call, double x) {
  if (call.approximate == Approximation::kNone) return x * (0.5 * std::erfc(-x / std::sqrt(2.0)));
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  // 1 + tanh(u) = 2 / (1 + e^-2u), which keeps its digits where tanh(u) is close to -1.
  return x / (1 + std::exp(-2 * u));
}
double Gelu::backward(const Call& call, double grad, double x) {
  if (call.approximate == Approximation::kNone) {
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    return grad * (0.5 * std::erfc(-x / std::sqrt(2.0)) + x * density);
  }
  const double scale = std::sqrt(8 / std::numbers::pi);
  const double u = scale * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-u));
  const double rest = 1 / (1 + std::exp(u));
  return grad * (s + x * s * rest * scale * (1 + 3 * 0.044715 * x * x));
}
double Swish::formula(const Call& /*call*/, double x) { return x / (1 + std::exp(-x)); }
double Swish::backward(const Call& /*call*/, double grad, double x) {
  return grad / (1 + std::exp(-x)) * (1 + x / (1 + std::exp(x)));
}
double Hardswish::formula(const Call& /*call*/, double x) {
  return x * (std::min(std::max(x + 3, 0.0), 6.0) / 6);
}
double Hardswish::backward(const Call& /*call*/, double grad, double x) {
  if (x <= -3) return 0;
  return x >= 3 ? grad : grad * (x / 3 + 0.5);
}
double Hardshrink::formula(const Call& call, double x) {
  // torch rounds lambd to the dtype, so that 0.3 in f16 counts as 0.3.
  const double lambd = round_to(call.dtype, call.lambd);
  return x >= -lambd && x <= lambd ? 0 : x;
}
double Hardshrink::backward(const Call& call, double grad, double x) {
  const double lambd = round_to(call.dtype, call.lambd);
  return x >= -lambd && x <= lambd ? 0 : grad;
}
double Sigmoid::formula(const Call& /*call*/, double x) { return 1 / (1 + std::exp(-x)); }
double Sigmoid::backward(const Call& /*call*/, double grad, double y) { return grad * (1 - y) * y; }
double ThresholdBackward::formula(const Call& call, double grad, double x) {
  return x <= round_to(call.dtype, call.threshold) ? 0 : grad;
}

Operands operands_of(const Problem& problem, int operands) {
  Operands result;
  result.dtype = problem.dtype();
  for (int i = 0; i < operands; ++i) {
    result.data[static_cast<size_t>(i)] = problem.tensor(i).data;
  }
  result.layout = layout_of(problem, operands);
  return result;
}

// ---- Shapes -----------------------------------------------------------------------------------

namespace {

void check_dtype(const Problem& problem) {
  if (kFloats.has(problem.dtype())) [[likely]]
    return;
  throw InvalidArgument(
      concatenate(problem.operation->name, " takes f32, f16 and bf16, got ", problem.tensor(0)));
}

}  // namespace

void Unary::infer(Problem& problem) {
  check_dtype(problem);
  problem.tensor(1) = Tensor::like(problem.tensor(0));
}

// As in NumPy: extents are matched from the last, and 1 goes with any, 0 too.
void Binary::infer(Problem& problem) {
  check_dtype(problem);
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const std::string_view name = problem.operation->name;
  if (a.dtype != b.dtype) [[unlikely]] {
    throw InvalidArgument(concatenate(name, " needs inputs of one dtype, got ", a, " and ", b));
  }
  const int rank = std::max(a.rank, b.rank);
  std::array<int64_t, kMaxRank> shape{};
  for (int d = 0; d < rank; ++d) {
    const auto extent = [&](const Tensor& t) {
      const int at = d - (rank - t.rank);
      return at < 0 ? 1 : t.extent(at);
    };
    if (extent(a) != extent(b) && extent(a) != 1 && extent(b) != 1) [[unlikely]] {
      throw InvalidArgument(concatenate(name, " cannot broadcast ", a, " and ", b, ": extents ",
                                        extent(a), " and ", extent(b), " of dimension ", d,
                                        " differ"));
    }
    shape[static_cast<size_t>(d)] = extent(a) == 1 ? extent(b) : extent(a);
  }
  problem.tensor(2) = Tensor::dense(a.dtype, {shape.data(), static_cast<size_t>(rank)});
}

void Slope::infer(Problem& problem) {
  check_dtype(problem);
  const Tensor& grad = problem.tensor(0);
  const Tensor& x = problem.tensor(1);
  if (grad.dtype != x.dtype || !grad.same_shape(x)) [[unlikely]] {
    throw InvalidArgument(concatenate(
        problem.operation->name, " needs inputs of one shape and dtype, got ", grad, " and ", x));
  }
  problem.tensor(2) = Tensor::like(grad);
}

namespace {

// Extent 2 of a case: how the inputs lie.
enum class Inputs : int64_t {
  kRows,        // row-major, all alike
  kRowVector,   // the second input is one row, [columns]
  kColumn,      // the second input is one column, [rows, 1]
  kTransposed,  // the first input is column-major
  kOuter,       // the first input is one column, the second one row, [1, columns]
  kSize
};

void make_inputs(const Case& chosen, DType dtype, int count, Problem& problem) {
  const int64_t rows = chosen.extents[0];
  const int64_t columns = chosen.extents[1];
  const auto inputs = static_cast<Inputs>(chosen.extents[2]);
  const bool takes_two = count == 2;
  require(
      inputs == Inputs::kRows || inputs == Inputs::kTransposed ||
          (takes_two && inputs > Inputs::kRows && inputs < Inputs::kSize),
      problem.operation->name, ": inputs=", chosen.extents[2],
      " is none of 0 (rows), 3 (transposed)",
      takes_two ? ", 1 (second is one row), 2 (second is one column), 4 (a column and a row)" : "");
  for (int k = 0; k < count; ++k) {
    problem.tensor(k) = Tensor::dense(dtype, {rows, columns});
    problem.tensor(k).strides[0] += chosen.padding;
  }
  if (inputs == Inputs::kRowVector) problem.tensor(1) = Tensor::dense(dtype, {columns});
  if (inputs == Inputs::kColumn) problem.tensor(1) = Tensor::dense(dtype, {rows, 1});
  if (inputs == Inputs::kTransposed) {
    problem.tensor(0).strides[0] = 1;
    problem.tensor(0).strides[1] = rows + chosen.padding;
  }
  if (inputs == Inputs::kOuter) {
    problem.tensor(0) = Tensor::dense(dtype, {rows, 1});
    problem.tensor(1) = Tensor::dense(dtype, {1, columns});
  }
}

}  // namespace

void Unary::make(const Case& chosen, DType dtype, Problem& problem) {
  make_inputs(chosen, dtype, 1, problem);
}
void Binary::make(const Case& chosen, DType dtype, Problem& problem) {
  make_inputs(chosen, dtype, 2, problem);
}
void Slope::make(const Case& chosen, DType dtype, Problem& problem) {
  make_inputs(chosen, dtype, 2, problem);
}

// ---- Cost, tolerance, reference ---------------------------------------------------------------

Cost cost_of(const Problem& problem, double flops_per_element) {
  const Tensor& output = problem.tensors[problem.operation->parameters.size() - 1];
  return {.bytes = least_traffic(problem),
          .flops = flops_per_element * static_cast<double>(output.elements())};
}

// Exact operations have one right result, which the reference rounds to. The others may err by 2e-6
// before they round: half a unit in the last place of f16 and bf16 (2^-11, 2^-8) dwarfs that.
// Below `floor` the error is absolute: f16 is subnormal there, exp flushes subnormals, gelu's fit
// is absolute. All of a few elements may lie there, so only many are held to the norm.
Tolerance tolerance_of(const Problem& problem, const Parameter& output, bool is_exact) {
  if (is_exact) return {};
  Tolerance tolerance;
  switch (problem.dtype()) {
    case DType::kF16: tolerance = {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 6.2e-5}; break;
    case DType::kBf16: tolerance = {.relative = 4e-3, .worst = 4e-3, .floor = 1e-5}; break;
    default: tolerance = {.relative = 2e-6, .worst = 2e-6, .floor = 1e-2}; break;
  }
  if (problem[output.name].elements() < 64) tolerance.relative = 0;
  return tolerance;
}

// Before they round, results err by some 3e-7 of grad, which is up to 5 in size, and where a slope
// is close to 0 little of it is left: `floor`.
Tolerance tolerance_of_slope(const Problem& problem, const Parameter& output, bool is_exact) {
  Tolerance tolerance = tolerance_of(problem, output, is_exact);
  if (is_exact) return tolerance;
  switch (problem.dtype()) {
    case DType::kF16: tolerance.floor = 4e-3; break;
    case DType::kBf16: tolerance.floor = 1e-3; break;
    default: tolerance.floor = 1; break;
  }
  return tolerance;
}

void evaluate(const Problem& problem, Slice slice, bool is_exact, const Formula& formula,
              double* expected) {
  const int inputs = static_cast<int>(problem.operation->parameters.size()) - 1;
  const Tensor& output = problem.tensor(inputs);
  std::array<Tensor, kMaxOperands> views;
  for (int k = 0; k < inputs; ++k) {
    views[static_cast<size_t>(k)] = broadcast(problem.tensor(k), output);
  }
  for (int64_t i = slice.first; i < slice.last; ++i) {
    std::array<double, kMaxOperands> x{};
    for (int k = 0; k < inputs; ++k) {
      x[static_cast<size_t>(k)] = element(views[static_cast<size_t>(k)], i);
    }
    const double y = formula(x.data());
    // Through f32, as the operations themselves: rounding twice differs from rounding once for no
    // sum or product but subnormal bf16.
    expected[i - slice.first] = is_exact ? round_to(output.dtype, y) : y;
  }
}

// ---- Inputs -----------------------------------------------------------------------------------

// Standard normal would never leave [-6, 6]: one element in eight comes from where the formulas
// bend, round to nothing or overflow on the way.
void Unary::fill(const Problem& problem, int index, uint64_t seed) {
  static constexpr std::array<double, 24> kCorners = {
      0.0,   -0.0,   0.5, -0.5, 3.0,  -3.0,  6.0,  -6.0,  1e-4, -1e-4, 0.4,  -0.4,
      100.0, -100.0, 9.0, -9.0, 15.0, -15.0, 88.0, -88.0, 2.9,  -2.9,  1e-7, -1e-7};
  fill_with(problem.tensor(index), [seed](int64_t i) {
    const uint64_t draw = random_bits(~seed, static_cast<uint64_t>(i));
    return draw % 8 == 0 ? kCorners[draw / 8 % kCorners.size()]
                         : 2 * random_normal(seed, static_cast<uint64_t>(i));
  });
}

void Slope::fill(const Problem& problem, int index, uint64_t seed) {
  if (index == 0) return fill_normal(problem.tensor(index), seed);
  Unary::fill(problem, index, seed);
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr Case kSmoke[] = {
    {.extents = {3, 67}},
    {.extents = {2, 64}, .offset = 1},
    {.extents = {3, 64}, .padding = 8},
    {.extents = {5, 11, 3}},
};
constexpr Case kSmokeTwoInputs[] = {
    {.extents = {5, 16, 1}},
    {.extents = {4, 9, 4}},
};

// A vector holds 2, 4 or 8 elements; a block takes 256 of them. The shapes straddle all of these.
constexpr Case kVerify[] = {
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
    {.extents = {130, 40}, .padding = 8},
    {.extents = {33, 65, 3}},
    {.extents = {16, 8, 3}, .offset = 1, .padding = 1},
};

constexpr Case kVerifyTwoInputs[] = {
    {.extents = {7, 65, 1}},
    {.extents = {65, 7, 2}},
    {.extents = {1, 300, 2}},
    {.extents = {300, 1, 1}},
    {.extents = {3, 2056, 1}},
    {.extents = {67, 64, 2}},
    {.extents = {9, 520, 4}},
    {.extents = {1, 4096, 2}},
    {.extents = {0, 10, 4}},
    {.extents = {10, 0, 4}},
    {.extents = {33, 65, 4}, .offset = 1},
    {.extents = {16, 8, 1}, .offset = 1, .padding = 1},
};

constexpr Case kBench[] = {
    {.extents = {16384, 4096}},
    {.extents = {1, 1 << 20}},
    {.extents = {1, 1000}},
};
constexpr Case kBenchTwoInputs[] = {
    {.extents = {4096, 4096, 1}},
    {.extents = {4096, 4096, 2}},
    {.extents = {4096, 4092, 1}, .padding = 4},
};

// One attribute that is not the default.
constexpr Case with_attribute(int64_t rows, int64_t columns, Value value) {
  return {.extents = {rows, columns}, .attributes = {value}};
}

template <size_t... kCounts>
constexpr auto joined(const Case (&... lists)[kCounts]) {
  std::array<Case, (kCounts + ...)> all{};
  auto at = all.begin();
  ((at = std::copy_n(lists, kCounts, at)), ...);
  return all;
}

constexpr Value kTanhChoice = Value::choice(static_cast<int>(Gelu::Approximation::kTanh));
constexpr Case kTanh[] = {with_attribute(5, 67, kTanhChoice)};
constexpr Case kBenchTanh[] = {with_attribute(16384, 4096, kTanhChoice)};
constexpr Case kAlphas[] = {with_attribute(5, 67, 0.3), with_attribute(5, 67, 0.0),
                            with_attribute(5, 67, -1.5)};
constexpr Case kThresholds[] = {with_attribute(5, 67, 0.5), with_attribute(5, 67, -1.0)};
constexpr Case kLambds[] = {with_attribute(5, 67, 0.1), with_attribute(5, 67, 0.0),
                            with_attribute(5, 67, 3.0), with_attribute(5, 67, -1.0)};

constexpr auto kSmokeBinary = joined(kSmoke, kSmokeTwoInputs);
constexpr auto kVerifyBinary = joined(kVerify, kVerifyTwoInputs);
constexpr auto kBenchBinary = joined(kBench, kBenchTwoInputs);
constexpr auto kSmokeAdd = joined(kSmoke, kSmokeTwoInputs, kAlphas);
constexpr auto kVerifyAdd = joined(kVerify, kVerifyTwoInputs, kAlphas);
constexpr auto kSmokeGelu = joined(kSmoke, kTanh);
constexpr auto kVerifyGelu = joined(kVerify, kTanh);
constexpr auto kBenchGelu = joined(kBench, kBenchTanh);
constexpr auto kVerifyElu = joined(kVerify, kAlphas);
constexpr auto kVerifyHardshrink = joined(kVerify, kLambds);
constexpr auto kVerifyThreshold = joined(kVerify, kThresholds);

}  // namespace

Cases Unary::cases() { return {kSmoke, kVerify, kBench}; }
Cases Binary::cases() { return {kSmokeBinary, kVerifyBinary, kBenchBinary}; }
Cases Add::cases() { return {kSmokeAdd, kVerifyAdd, kBenchBinary}; }
Cases Elu::cases() { return {kSmoke, kVerifyElu, kBench}; }
Cases Gelu::cases() { return {kSmokeGelu, kVerifyGelu, kBenchGelu}; }
Cases Hardshrink::cases() { return {kSmoke, kVerifyHardshrink, kBench}; }
Cases ThresholdBackward::cases() { return {kSmoke, kVerifyThreshold, kBench}; }

}  // namespace ws::elementwise
