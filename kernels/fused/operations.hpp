// What of a transformer is cheap to compute and dear to move, several steps in one kernel: a bias
// under an activation, gates, dropout. reference.cpp has how they are checked.
//
//   bias_gelu   y = gelu(x + bias)
//   swiglu      y = silu(gate) * up         (gate and up: tensors, or views of the halves of one)
//   geglu       y = gelu(gate) * up
//   dropout     y = x * keep / (1 - p), keep a function of seed, offset and the element's number
//
// All arithmetic is in f32, rounded once, at the end.
#pragma once

#include <algorithm>

#include "catalogue/joined.hpp"
#include "kernels/elementwise/operations.hpp"

namespace ws::fused {

// ---- What operations on elements share ----------------------------------------------------------

using Approximation = elementwise::Gelu::Approximation;
using elementwise::Operands;

inline constexpr Attribute kApproximate[] = {
    {.name = "approximate",
     .kind = Value::Kind::kChoice,
     .standard = Value::choice(0),
     .choices = elementwise::Gelu::kApproximations,
     .doc = "of gelu: none, the normal distribution itself; tanh, the paper's approximation of it"},
};
inline constexpr Parameter kX = {.name = "x", .doc = "[..., N], f32, f16 or bf16, any strides"};
inline constexpr Parameter kBias = {
    .name = "bias", .rows = Parameter::Rows::kShared, .doc = "[N], dtype of x"};
inline constexpr Parameter kGrad = {.name = "grad", .doc = "gradient of y: f32, f16 or bf16"};
inline constexpr Parameter kGate = {
    .name = "gate", .doc = "any shape of rank 0 to 6, f32, f16 or bf16, any strides"};
inline constexpr Parameter kUp = {.name = "up", .doc = "shape and dtype of gate"};
inline constexpr Parameter kY = {
    .name = "y", .role = Parameter::Role::kOut, .doc = "shape and dtype of the first input"};

inline constexpr Parameter kBiasForward[] = {kX,
                                             kBias,
                                             {.name = "y",
                                              .role = Parameter::Role::kOut,
                                              .doc = "shape and dtype of x",
                                              .shape = "x.shape"}};
inline constexpr Parameter kBiasBackward[] = {
    kGrad,
    {.name = "x", .doc = "the forward's, shape and dtype of grad"},
    kBias,
    {.name = "dx",
     .role = Parameter::Role::kOut,
     .doc = "shape and dtype of grad",
     .shape = "grad.shape"}};
inline constexpr Parameter kGateForward[] = {kGate, kUp, kY};
inline constexpr Parameter kGateBackward[] = {
    kGrad,
    {.name = "gate", .doc = "the forward's, shape and dtype of grad"},
    {.name = "up", .doc = "the forward's, shape and dtype of grad"},
    {.name = "dgate", .role = Parameter::Role::kOut, .doc = "shape and dtype of grad"},
    {.name = "dup", .role = Parameter::Role::kOut, .doc = "shape and dtype of grad"}};

inline constexpr std::string_view kLayoutExtents[] = {"rows", "columns", "transposed"};

// Operands are the first tensors: inputs, then outputs, all of one shape but a bias.
void infer(Problem& problem, int inputs, int outputs, bool has_bias);
void make(const Case& chosen, DType dtype, Problem& problem, int inputs, bool has_bias);
Cost cost_of(const Problem& problem, double flops_of_element);
Tolerance tolerance_of(const Problem& problem, const Parameter& output);
// formula(in, out): the definition, in double precision.
using Formula = std::function<void(const double* in, double* out)>;
void evaluate(const Problem& problem, Slice slice, int inputs, int outputs, const Formula& formula,
              std::span<double* const> expected);

// Op has kFlops, formula(const Call&, in, out) and, for the device in functors.hpp,
// with_functor<T>(call, visit).
template <class Op, int kInputCount, int kOutputCount, bool kHasBias>
struct OnElements {
  static constexpr int kInputs = kInputCount;
  static constexpr int kOutputs = kOutputCount;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr auto& kExtentNames = kLayoutExtents;
  static constexpr int kOptionalExtents = 1;
  // Every rung reads an element's inputs before it writes its outputs, in one thread.
  static constexpr bool kInPlace = true;
  static constexpr Batch kBatch = kHasBias ? Batch::kRows : Batch::kElements;

  struct Call : Operands {
    using Operation = Op;
    Approximation approximate{};
  };
  static Call call(const Problem& problem) {
    Call call{elementwise::operands_of(problem, kInputs + kOutputs)};
    if (!problem.operation->attributes.empty()) {
      call.approximate = problem.choice<Approximation>("approximate");
    }
    return call;
  }
  static void infer(Problem& problem) { fused::infer(problem, kInputs, kOutputs, kHasBias); }
  static void make(const Case& chosen, DType dtype, Problem& problem) {
    fused::make(chosen, dtype, problem, kInputs, kHasBias);
  }
  static int64_t items(const Problem& problem, const Parameter& /*output*/) {
    return problem.tensor(kInputs).elements();
  }
  static Cost cost(const Problem& problem) { return cost_of(problem, Op::kFlops); }
  static Tolerance tolerance(const Problem& problem, const Parameter& output) {
    return tolerance_of(problem, output);
  }
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
    const Call call = Op::call(problem);
    const auto formula = [&](const double* in, double* out) { Op::formula(call, in, out); };
    evaluate(problem, slice, kInputs, kOutputs, formula, expected);
  }
  static void fill(const Problem& problem, int index, uint64_t seed);
  static Cases cases();
  static std::span<const Rung* const> by_worth(const Operands& operands);

 private:
  OnElements() = default;
  friend Op;
};
// fused.cu: rungs from the fastest to the one that takes everything.
std::span<const Rung* const> rungs_by_worth();
void fill_elements(const Problem& problem, int index, uint64_t seed);
Cases cases_of_elements(bool has_choice);

template <class Op, int kInputCount, int kOutputCount, bool kHasBias>
std::span<const Rung* const> OnElements<Op, kInputCount, kOutputCount, kHasBias>::by_worth(
    const Operands& /*operands*/) {
  return rungs_by_worth();
}
template <class Op, int kInputCount, int kOutputCount, bool kHasBias>
void OnElements<Op, kInputCount, kOutputCount, kHasBias>::fill(const Problem& problem, int index,
                                                               uint64_t seed) {
  fill_elements(problem, index, seed);
}
template <class Op, int kInputCount, int kOutputCount, bool kHasBias>
Cases OnElements<Op, kInputCount, kOutputCount, kHasBias>::cases() {
  return cases_of_elements(requires { Op::kAttributes; });
}

// ---- Second gradients ---------------------------------------------------------------------------

// curvature_at: of gelu, by the lines of gelu_backward's own gradient before what comes in.
inline constexpr std::string_view kCurvatureHead = R"(
def curvature_at(x):)";
inline constexpr std::string_view kCurvatureBody = [] {
  constexpr std::string_view kText = elementwise::GeluBackward::kGradient;
  return kText.substr(0, kText.rfind('\n', kText.find("bent =")) + 1);
}();
inline constexpr std::string_view kCurvatureEnd = R"(
    return curvature
)";
inline constexpr std::string_view kBiasGeluCurved = R"(
d = g.float() * grad * curvature_at(x.float() + bias.float())
return (ops.bias_gelu_backward(g, x, bias, approximate=approximate), d.to(grad.dtype),
        sum_to(d, bias.shape).to(bias.dtype))
)";
inline constexpr std::string_view kGeluOfGate = R"(
h = gate.float()
y = ops.gelu(h, approximate=approximate)
slope = ops.gelu_backward(torch.ones_like(h), h, approximate=approximate)
curvature = curvature_at(h)
)";
inline constexpr std::string_view kSiluOfGate = R"(
h = gate.float()
s = torch.sigmoid(h)
y = h * s
slope = s * (1 + h * (1 - s))
curvature = s * (1 - s) * (2 + h * (1 - 2 * s))
)";
// y: of a gate, whose gradients come in as g_dgate and g_dup.
inline constexpr std::string_view kGateCurved = R"(
of_gate = torch.zeros_like(h) if g_dgate is None else g_dgate.float()
of_up = torch.zeros_like(h) if g_dup is None else g_dup.float()
return ((of_gate * up * slope + of_up * y).to(grad.dtype),
        (grad * (of_gate * up * curvature + of_up * slope)).to(gate.dtype),
        (of_gate * grad * slope).to(up.dtype))
)";

// ---- Operations ---------------------------------------------------------------------------------

struct BiasGelu : OnElements<BiasGelu, 2, 1, true> {
  static constexpr std::string_view kName = "bias_gelu";
  static constexpr std::string_view kSummary = "gelu of a tensor and a bias added to its rows";
  static constexpr std::string_view kSource = elementwise::Gelu::kSource;
  static constexpr std::string_view kFormula = "y[r, i] = gelu(x[r, i] + bias[i])";
  static constexpr std::string_view kTorch =
      "torch.nn.functional.gelu(x + bias, approximate=approximate)";
  static constexpr std::string_view kGradient = R"(
d = ops.bias_gelu_backward(g, x, bias, approximate=approximate)
return d, ops.sum(torch.atleast_2d(d).flatten(0, -2), dim=[0]))";
  static constexpr auto& kAttributes = kApproximate;
  static constexpr auto& kParameters = kBiasForward;
  static constexpr double kFlops = 9;

  static void formula(const Call& call, const double* in, double* out);
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
};

struct BiasGeluBackward : OnElements<BiasGeluBackward, 3, 1, true> {
  static constexpr std::string_view kName = "bias_gelu_backward";
  static constexpr std::string_view kSummary =
      "gradient of bias_gelu: that of x, whose sum over rows is that of bias";
  static constexpr std::string_view kSource = elementwise::Gelu::kSource;
  static constexpr std::string_view kFormula = "dx = grad * gelu'(x + bias)";
  static constexpr std::string_view kTorch =
      "torch.ops.aten.gelu_backward(grad, x + bias, approximate=approximate)";
  static constexpr std::string_view kGradient =
      kJoined<kCurvatureHead, kCurvatureBody, kCurvatureEnd, kBiasGeluCurved>;
  static constexpr auto& kAttributes = kApproximate;
  static constexpr auto& kParameters = kBiasBackward;
  static constexpr double kFlops = 16;

  static void formula(const Call& call, const double* in, double* out);
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
};

struct SwiGlu : OnElements<SwiGlu, 2, 1, false> {
  static constexpr std::string_view kName = "swiglu";
  static constexpr std::string_view kSummary = "silu(gate) * up";
  static constexpr std::string_view kSource =
      "Shazeer, GLU Variants Improve Transformer, 2020, arXiv:2002.05202";
  static constexpr std::string_view kFormula = "y[i] = gate[i] / (1 + exp(-gate[i])) * up[i]";
  static constexpr std::string_view kTorch = "torch.nn.functional.silu(gate) * up";
  static constexpr std::string_view kGradient = "ops.swiglu_backward(g, gate, up)";
  static constexpr PythonPeer kPythonPeers[] = {
      {"liger", "liger_kernel.transformers.functional.liger_swiglu(gate, up)"}};
  static constexpr auto& kParameters = kGateForward;
  static constexpr double kFlops = 5;

  static void formula(const Call& call, const double* in, double* out);
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
};

struct SwiGluBackward : OnElements<SwiGluBackward, 3, 2, false> {
  static constexpr std::string_view kName = "swiglu_backward";
  static constexpr std::string_view kSummary = "gradients of swiglu, both in one pass";
  static constexpr std::string_view kSource = SwiGlu::kSource;
  static constexpr std::string_view kFormula =
      "dgate = grad * up * s * (1 + gate * (1 - s)), dup = grad * gate * s, s = sigmoid(gate)";
  static constexpr std::string_view kTorch = R"(
s = torch.sigmoid(gate)
return grad * up * s * (1 + gate * (1 - s)), grad * gate * s)";
  static constexpr std::string_view kGradient = kJoined<kSiluOfGate, kGateCurved>;
  static constexpr auto& kParameters = kGateBackward;
  static constexpr double kFlops = 11;

  static void formula(const Call& call, const double* in, double* out);
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
};

struct GeGlu : OnElements<GeGlu, 2, 1, false> {
  static constexpr std::string_view kName = "geglu";
  static constexpr std::string_view kSummary = "gelu(gate) * up";
  static constexpr std::string_view kSource = SwiGlu::kSource;
  static constexpr std::string_view kFormula = "y[i] = gelu(gate[i]) * up[i]";
  static constexpr std::string_view kTorch =
      "torch.nn.functional.gelu(gate, approximate=approximate) * up";
  static constexpr std::string_view kGradient =
      "ops.geglu_backward(g, gate, up, approximate=approximate)";
  static constexpr PythonPeer kPythonPeers[] = {
      {"liger",
       "liger_kernel.transformers.functional.liger_geglu(gate, up) if approximate == 'tanh' else "
       "refuse('has the approximation alone')"}};
  static constexpr auto& kAttributes = kApproximate;
  static constexpr auto& kParameters = kGateForward;
  static constexpr double kFlops = 9;

  static void formula(const Call& call, const double* in, double* out);
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
};

struct GeGluBackward : OnElements<GeGluBackward, 3, 2, false> {
  static constexpr std::string_view kName = "geglu_backward";
  static constexpr std::string_view kSummary = "gradients of geglu, both in one pass";
  static constexpr std::string_view kSource = SwiGlu::kSource;
  static constexpr std::string_view kFormula =
      "dgate = grad * up * gelu'(gate), dup = grad * gelu(gate)";
  static constexpr std::string_view kTorch = R"(
gelu = torch.nn.functional.gelu(gate, approximate=approximate)
return torch.ops.aten.gelu_backward(grad * up, gate, approximate=approximate), grad * gelu)";
  static constexpr std::string_view kGradient =
      kJoined<kCurvatureHead, kCurvatureBody, kCurvatureEnd, kGeluOfGate, kGateCurved>;
  static constexpr auto& kAttributes = kApproximate;
  static constexpr auto& kParameters = kGateBackward;
  static constexpr double kFlops = 18;

  static void formula(const Call& call, const double* in, double* out);
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
};

}  // namespace ws::fused
