// What the operations of `fused` compute, in double precision; their shapes, cost and tolerance,
// and the problems to verify and to time.
#include <cmath>
#include <numbers>

#include "catalogue/fill.hpp"
#include "kernels/fused/operations.hpp"

namespace ws::fused {

// ---- Formulas, from the definitions -------------------------------------------------------------

namespace {

struct Activation {
  double value;
  double slope;
};

Activation silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s * (1 + x / (1 + std::exp(x)))};
}
Activation gelu(double x, Approximation approximate) {
  const double pi = std::numbers::pi;
  if (approximate == Approximation::kNone) {
    const double phi = std::exp(-x * x / 2) / std::sqrt(2 * pi);
    const double distribution = 0.5 * std::erfc(-x / std::sqrt(2.0));
    return {x * distribution, distribution + x * phi};
  }
  const double u = std::sqrt(2 / pi) * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-2 * u));
  const double rest = 1 / (1 + std::exp(2 * u));
  const double inner = 2 * std::sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
  return {x * s, s + x * s * rest * inner};
}

}  // namespace

void BiasGelu::formula(const Call& call, const double* in, double* out) {
  out[0] = gelu(in[0] + in[1], call.approximate).value;
}
void BiasGeluBackward::formula(const Call& call, const double* in, double* out) {
  out[0] = in[0] * gelu(in[1] + in[2], call.approximate).slope;
}
void SwiGlu::formula(const Call& /*call*/, const double* in, double* out) {
  out[0] = silu(in[0]).value * in[1];
}
void SwiGluBackward::formula(const Call& /*call*/, const double* in, double* out) {
  const Activation gate = silu(in[1]);
  out[0] = in[0] * in[2] * gate.slope;
  out[1] = in[0] * gate.value;
}
void GeGlu::formula(const Call& call, const double* in, double* out) {
  out[0] = gelu(in[0], call.approximate).value * in[1];
}
void GeGluBackward::formula(const Call& call, const double* in, double* out) {
  const Activation gate = gelu(in[1], call.approximate);
  out[0] = in[0] * in[2] * gate.slope;
  out[1] = in[0] * gate.value;
}

// ---- Shapes -------------------------------------------------------------------------------------

void infer(Problem& problem, int inputs, int outputs, bool has_bias) {
  const Tensor& first = problem.tensor(0);
  const std::string_view name = problem.operation->name;
  if (!kFloats.has(first.dtype)) [[unlikely]] {
    throw InvalidArgument(concatenate(name, " takes f32, f16 and bf16, got ", first));
  }
  const int same = has_bias ? inputs - 1 : inputs;
  for (int k = 1; k < same; ++k) {
    const Tensor& other = problem.tensor(k);
    if (other.dtype != first.dtype || !other.same_shape(first)) [[unlikely]] {
      throw InvalidArgument(
          concatenate(name, " needs inputs of one shape and dtype, got ", first, " and ", other));
    }
  }
  if (has_bias) {
    const Tensor& bias = problem.tensor(inputs - 1);
    if (first.rank < 1 || bias.rank != 1 || bias.dtype != first.dtype ||
        bias.extent(0) != first.extent(first.rank - 1)) [[unlikely]] {
      throw InvalidArgument(concatenate(name, " needs a bias with an element for each column of ",
                                        first, ", of its dtype, got ", bias));
    }
  }
  for (int k = inputs; k < inputs + outputs; ++k) problem.tensor(k) = Tensor::like(first);
}

void make(const Case& chosen, DType dtype, Problem& problem, int inputs, bool has_bias) {
  const int64_t rows = chosen.extents[0];
  const int64_t columns = chosen.extents[1];
  const bool transposed = chosen.extents[2] != 0;
  for (int k = 0; k < inputs; ++k) {
    Tensor& tensor = problem.tensor(k);
    tensor = Tensor::dense(dtype, {rows, columns});
    tensor.strides[0] += chosen.padding;
    if (transposed && k == 0) tensor.strides = {1, rows + chosen.padding};
  }
  if (has_bias) problem.tensor(inputs - 1) = Tensor::dense(dtype, {columns});
}

// ---- Cost, tolerance, reference, inputs ---------------------------------------------------------

Cost cost_of(const Problem& problem, double flops_of_element) {
  return {.bytes = least_traffic(problem),
          .flops = flops_of_element * static_cast<double>(problem.tensor(0).elements())};
}

// Before they round, results err by some 3e-7 of the product of all factors, which is a few dozen;
// where an activation's slope is close to 0, little of that product is left: `floor`.
Tolerance tolerance_of(const Problem& problem, const Parameter& output) {
  Tolerance tolerance;
  switch (problem.dtype()) {
    case DType::kF16: tolerance = {.relative = 5.2e-4, .worst = 5.2e-4, .floor = 0.05}; break;
    case DType::kBf16: tolerance = {.relative = 4e-3, .worst = 4e-3, .floor = 0.01}; break;
    default: tolerance = {.relative = 2e-6, .worst = 3e-6, .floor = 5}; break;
  }
  if (problem[output.name].elements() < 64) tolerance.relative = 0;
  return tolerance;
}

void evaluate(const Problem& problem, Slice slice, int inputs, int outputs, const Formula& formula,
              std::span<double* const> expected) {
  const Tensor& shape = problem.tensor(inputs);
  std::array<Tensor, elementwise::kMaxOperands> views;
  for (int k = 0; k < inputs; ++k) {
    views[static_cast<size_t>(k)] = broadcast(problem.tensor(k), shape);
  }
  for (int64_t i = slice.first; i < slice.last; ++i) {
    std::array<double, elementwise::kMaxOperands> in{};
    std::array<double, elementwise::kMaxOperands> out{};
    for (size_t k = 0; k < static_cast<size_t>(inputs); ++k) in[k] = element(views[k], i);
    formula(in.data(), out.data());
    for (size_t k = 0; k < static_cast<size_t>(outputs); ++k) {
      double* const to = expected[static_cast<size_t>(inputs) + k];
      if (to != nullptr) to[i - slice.first] = out[k];
    }
  }
}

// What activations see has their bends and their tails; the rest is standard normal.
void fill_elements(const Problem& problem, int index, uint64_t seed) {
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  if (name == "x" || name == "gate") return elementwise::Unary::fill(problem, index, seed);
  fill_normal(problem.tensor(index), seed);
}

// ---- Cases --------------------------------------------------------------------------------------

namespace {

constexpr Value kTanh = Value::choice(static_cast<int>(Approximation::kTanh));

constexpr Case kSmoke[] = {
    {.extents = {3, 67}},
    {.extents = {5, 64}, .padding = 64},
    {.extents = {2, 64}, .offset = 1},
    {.extents = {3, 64}},
    {.extents = {5, 11, 1}},
    {.extents = {4, 40}, .attributes = {kTanh}},
};
// A vector holds 4 or 8 elements, a block takes 256 of them.
constexpr Case kVerify[] = {
    {.extents = {0, 5}},
    {.extents = {3, 0}},
    {.extents = {1, 1}},
    {.extents = {3, 1}},
    {.extents = {1, 9}},
    {.extents = {2, 8}},
    {.extents = {1, 2051}},
    {.extents = {33, 65}},
    {.extents = {17, 136}},
    {.extents = {9, 512}, .padding = 8},
    {.extents = {5, 24}, .padding = 3},
    {.extents = {300, 8}},
    {.extents = {33, 16, 1}},
    {.extents = {40, 56}, .attributes = {kTanh}},
};
constexpr Case kBench[] = {
    {.extents = {16384, 4096}},
    {.extents = {16384, 14336}},
    {.extents = {1, 1 << 20}},
    {.extents = {16384, 4096}, .attributes = {kTanh}},
};

}  // namespace

Cases cases_of_elements(bool has_choice) {
  const auto without_last = [&](auto& all) {
    return std::span(all).first(std::size(all) - (has_choice ? 0 : 1));
  };
  return {without_last(kSmoke), without_last(kVerify), without_last(kBench)};
}

}  // namespace ws::fused
