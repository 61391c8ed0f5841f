// The operations of `elementwise`: what they are called, take and return, one struct each.
//
// A new operation is a struct here, and its name in `Operations` at the end; its functor, for the
// device, stands in functors.hpp, its definition in double precision in reference.cpp. Rungs,
// peers and everything else follow from the list.
#pragma once

#include <functional>

#include "catalogue/row.hpp"
#include "kernels/elementwise/layout.hpp"

namespace ws::elementwise {

// What the calls of all operations have.
struct Operands {
  DType dtype{};
  std::array<void*, kMaxOperands> data{};  // inputs, then outputs
  Layout layout;
};

// Of a problem whose first tensors are its inputs and outputs, so many together.
Operands operands_of(const Problem& problem, int operands);

// ---- What operations of one input share, and of two -------------------------------------------

struct Unary {
  static constexpr int kInputs = 1;
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
      {.name = "y", .role = Parameter::Role::kOut, .doc = "shape and dtype of x"},
  };
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static void fill(const Problem& problem, int index, uint64_t seed);
};

struct Binary {
  static constexpr int kInputs = 2;
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
      {.name = "b", .doc = "dtype of a; broadcast against a"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "the broadcast shape, dtype of a",
       .shape = "torch.broadcast_shapes(a.shape, b.shape)"},
  };
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
};

// The gradient of a function: from that of y, and from x.
struct Slope {
  static constexpr int kInputs = 2;
  static constexpr Parameter kParameters[] = {
      {.name = "grad",
       .doc = "gradient of y: any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
      {.name = "x", .doc = "shape and dtype of grad"},
      {.name = "dx", .role = Parameter::Role::kOut, .doc = "shape and dtype of grad"},
  };
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// The definition of an operation, on an element of each input.
using Formula = std::function<double(const double* x)>;
void evaluate(const Problem& problem, Slice slice, bool is_exact, const Formula& formula,
              double* expected);
Cost cost_of(const Problem& problem, double flops_per_element);
Tolerance tolerance_of(const Problem& problem, const Parameter& output, bool is_exact);
Tolerance tolerance_of_slope(const Problem& problem, const Parameter& output, bool is_exact);

// All that an operation need not say itself. Op has
//   kFlops      what a plain evaluation of its formula counts, a function call as one
//   kIsExact    whether there is one right result, which every rung must give; or is_exact, where
//               that is so of some calls
//   formula     the definition: double formula(const Call&, double x), or of a and b
//   Functor     the same on the device, functors.hpp
template <class Op, class Base>
struct Elementwise : Base {
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kExtentNames[3] = {"rows", "columns", "inputs"};
  static constexpr int kOptionalExtents = 1;
  // Every rung reads the inputs of an element before it writes it, in one thread. An input that is
  // broadcast is not exactly the output.
  static constexpr bool kInPlace = true;
  static constexpr Batch kBatch = Batch::kElements;
  static constexpr bool kIsExact = false;

  struct Call : Operands {
    using Operation = Op;
  };
  static Call call(const Problem& problem, int operands = Base::kInputs + 1) {
    return {operands_of(problem, operands)};
  }

  // visit(functor) with the functor of a call on elements of T.
  template <class T, class Call, class Visit>
  static void with_functor(const Call& /*call*/, Visit&& visit) {
    visit(typename Op::Functor{});
  }

  static int64_t items(const Problem& problem, const Parameter& /*output*/) {
    return problem.tensor(Base::kInputs).elements();
  }
  static Cost cost(const Problem& problem) { return cost_of(problem, Op::kFlops); }
  static bool is_exact(const Problem& /*problem*/) { return Op::kIsExact; }
  static Tolerance tolerance(const Problem& problem, const Parameter& output) {
    return tolerance_of(problem, output, Op::is_exact(problem));
  }
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
    const typename Op::Call call = Op::call(problem);
    const auto formula = [&](const double* x) {
      if constexpr (Base::kInputs == 1) {
        return Op::formula(call, x[0]);
      } else {
        return Op::formula(call, x[0], x[1]);
      }
    };
    evaluate(problem, slice, Op::is_exact(problem), formula, expected[Base::kInputs]);
  }
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Operands& operands);

 private:
  Elementwise() = default;
  friend Op;
};

// ---- The operations ---------------------------------------------------------------------------

struct Add : Elementwise<Add, Binary> {
  static constexpr std::string_view kName = "add";
  static constexpr std::string_view kSummary = "Sum of two tensors";
  static constexpr std::string_view kSource = "torch.add";
  static constexpr std::string_view kFormula = "y[i] = a[i] + alpha * b[i]";
  static constexpr std::string_view kTorch = "torch.add(a, b, alpha=alpha)";
  static constexpr std::string_view kGradient =
      "(sum_to(g, a.shape), sum_to(g if alpha == 1 else g * alpha, b.shape))";
  static constexpr std::string_view kSeedPrefix = "elementwise";
  static constexpr Attribute kAttributes[] = {
      {.name = "alpha",
       .kind = Value::Kind::kFloat,
       .standard = 1.0,
       .doc = "factor of b, in f32; any number"},
  };
  static constexpr double kFlops = 1;
  struct Functor;
  struct Call : Elementwise::Call {
    double alpha = 1;
  };
  static Call call(const Problem& problem) {
    return {Elementwise::call(problem), problem.number("alpha")};
  }
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
  static bool is_exact(const Problem& problem) { return problem.number("alpha") == 1; }
  static Cases cases();
  static double formula(const Call& call, double a, double b);
};

struct Mul : Elementwise<Mul, Binary> {
  static constexpr std::string_view kName = "mul";
  static constexpr std::string_view kSummary = "Product of two tensors, element by element";
  static constexpr std::string_view kSource = "torch.mul";
  static constexpr std::string_view kFormula = "y[i] = a[i] * b[i]";
  static constexpr std::string_view kTorch = "torch.mul(a, b)";
  static constexpr std::string_view kGradient =
      "(sum_to(ops.mul(g, b), a.shape), sum_to(ops.mul(g, a), b.shape))";
  static constexpr double kFlops = 1;
  static constexpr bool kIsExact = true;
  struct Functor;
  static double formula(const Call& call, double a, double b);
};

struct Relu : Elementwise<Relu, Unary> {
  static constexpr std::string_view kName = "relu";
  static constexpr std::string_view kSummary = "Rectified linear unit";
  static constexpr std::string_view kSource = "Nair and Hinton, ICML 2010";
  static constexpr std::string_view kFormula = "y[i] = max(x[i], 0)";
  static constexpr std::string_view kTorch = "torch.relu(x)";
  static constexpr std::string_view kGradient = "(ops.threshold_backward(g, y),)";
  static constexpr std::string_view kSeedPrefix = "relu";
  static constexpr double kFlops = 1;
  static constexpr bool kIsExact = true;
  struct Functor;
  static double formula(const Call& call, double x);
};

struct Elu : Elementwise<Elu, Unary> {
  static constexpr std::string_view kName = "elu";
  static constexpr std::string_view kSummary = "Exponential linear unit";
  static constexpr std::string_view kSource = "Clevert et al., arXiv:1511.07289";
  static constexpr std::string_view kFormula = "y[i] = x[i] > 0 ? x[i] : alpha * (exp(x[i]) - 1)";
  static constexpr std::string_view kTorch = "torch.nn.functional.elu(x, alpha)";
  static constexpr std::string_view kGradient = "(ops.elu_backward(g, x, alpha=alpha),)";
  static constexpr std::string_view kSeedPrefix = "elu";
  static constexpr Attribute kAttributes[] = {
      {.name = "alpha",
       .kind = Value::Kind::kFloat,
       .standard = 1.0,
       .doc = "what x = -infinity gives, negated; any number"},
  };
  static constexpr double kFlops = 3;
  struct Functor;
  struct Call : Elementwise::Call {
    double alpha = 1;
  };
  static Call call(const Problem& problem, int operands = 2) {
    return {Elementwise::call(problem, operands), problem.number("alpha")};
  }
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
  static Cases cases();
  static double formula(const Call& call, double x);
  static double backward(const Call& call, double grad, double x);
};

struct Gelu : Elementwise<Gelu, Unary> {
  enum class Approximation { kNone, kTanh };
  static constexpr std::string_view kApproximations[] = {"none", "tanh"};

  static constexpr std::string_view kName = "gelu";
  static constexpr std::string_view kSummary = "Gaussian error linear unit";
  static constexpr std::string_view kSource = "Hendrycks and Gimpel, arXiv:1606.08415";
  static constexpr std::string_view kFormula =
      "y[i] = x[i] / 2 * (1 + erf(x[i] / sqrt(2))), or "
      "x[i] / 2 * (1 + tanh(sqrt(2 / pi) * (x[i] + 0.044715 * x[i]^3)))";
  static constexpr std::string_view kTorch = "torch.nn.functional.gelu(x, approximate=approximate)";
  static constexpr std::string_view kGradient =
      "(ops.gelu_backward(g, x, approximate=approximate),)";
  static constexpr std::string_view kSeedPrefix = "gelu";
  static constexpr Attribute kAttributes[] = {
      {.name = "approximate",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kApproximations,
       .doc = "none: the normal distribution itself; tanh: the paper's approximation of it"},
  };
  static constexpr double kFlops = 8;
  struct Functor;
  struct TanhFunctor;
  struct Call : Elementwise::Call {
    Approximation approximate{};
  };
  static Call call(const Problem& problem, int operands = 2) {
    return {Elementwise::call(problem, operands), problem.choice<Approximation>("approximate")};
  }
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
  static Cases cases();
  static double formula(const Call& call, double x);
  static double backward(const Call& call, double grad, double x);
};

struct Swish : Elementwise<Swish, Unary> {
  static constexpr std::string_view kName = "swish";
  static constexpr std::string_view kSummary = "x * sigmoid(x), also called SiLU";
  static constexpr std::string_view kSource = "Ramachandran et al., arXiv:1710.05941";
  static constexpr std::string_view kFormula = "y[i] = x[i] / (1 + exp(-x[i]))";
  static constexpr std::string_view kTorch = "torch.nn.functional.silu(x)";
  static constexpr std::string_view kGradient = "(ops.silu_backward(g, x),)";
  static constexpr std::string_view kSeedPrefix = "swish";
  static constexpr double kFlops = 4;
  struct Functor;
  static double formula(const Call& call, double x);
  static double backward(const Call& call, double grad, double x);
};

struct Hardswish : Elementwise<Hardswish, Unary> {
  static constexpr std::string_view kName = "hardswish";
  static constexpr std::string_view kSummary = "Swish with straight lines for the sigmoid";
  static constexpr std::string_view kSource = "Howard et al., arXiv:1905.02244";
  static constexpr std::string_view kFormula = "y[i] = x[i] * min(max(x[i] + 3, 0), 6) / 6";
  static constexpr std::string_view kTorch = "torch.nn.functional.hardswish(x)";
  static constexpr std::string_view kGradient = "(ops.hardswish_backward(g, x),)";
  static constexpr std::string_view kSeedPrefix = "hardswish";
  static constexpr double kFlops = 5;
  struct Functor;
  static double formula(const Call& call, double x);
  static double backward(const Call& call, double grad, double x);
};

struct Hardshrink : Elementwise<Hardshrink, Unary> {
  static constexpr std::string_view kName = "hardshrink";
  static constexpr std::string_view kSummary = "Zero where the magnitude is at most lambd";
  static constexpr std::string_view kSource = "torch.nn.functional.hardshrink";
  static constexpr std::string_view kFormula = "y[i] = |x[i]| <= lambd ? 0 : x[i]";
  static constexpr std::string_view kTorch = "torch.nn.functional.hardshrink(x, lambd)";
  static constexpr std::string_view kGradient = "(ops.hardshrink_backward(g, x, lambd=lambd),)";
  static constexpr std::string_view kSeedPrefix = "hardshrink";
  static constexpr Attribute kAttributes[] = {
      {.name = "lambd",
       .kind = Value::Kind::kFloat,
       .standard = 0.5,
       .doc = "largest magnitude that becomes 0"},
  };
  static constexpr double kFlops = 2;
  static constexpr bool kIsExact = true;
  struct Functor;
  struct Call : Elementwise::Call {
    double lambd = 0.5;
  };
  static Call call(const Problem& problem, int operands = 2) {
    return {Elementwise::call(problem, operands), problem.number("lambd")};
  }
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
  static Cases cases();
  static double formula(const Call& call, double x);
  static double backward(const Call& call, double grad, double x);
};

struct Sigmoid : Elementwise<Sigmoid, Unary> {
  static constexpr std::string_view kName = "sigmoid";
  static constexpr std::string_view kSummary = "Logistic function";
  static constexpr std::string_view kSource = "torch.sigmoid";
  static constexpr std::string_view kFormula = "y[i] = 1 / (1 + exp(-x[i]))";
  static constexpr std::string_view kTorch = "torch.sigmoid(x)";
  static constexpr std::string_view kGradient = "(ops.sigmoid_backward(g, y),)";
  static constexpr std::string_view kSeedPrefix = "sigmoid";
  static constexpr double kFlops = 4;
  struct Functor;
  static double formula(const Call& call, double x);
  static double backward(const Call& call, double grad, double y);
};

// ---- Their gradients --------------------------------------------------------------------------
//
// Named as torch's aten names them. Gradients of these are expressions in torch's own operations.

// That of Forward, whose reference has backward(call, grad, x), and its functor backward(grad, x).
template <class Op, class Forward>
struct Backward : Elementwise<Op, Slope> {
  static constexpr std::string_view kSource = Forward::kSource;
  static constexpr bool kIsExact = Forward::kIsExact;
  struct Call : Forward::Call {
    using Operation = Op;
  };
  static Call call(const Problem& problem) { return {Forward::call(problem, 3)}; }
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
  static Cases cases() { return Forward::cases(); }
  static Tolerance tolerance(const Problem& problem, const Parameter& output) {
    return tolerance_of_slope(problem, output, kIsExact);
  }
  static double formula(const Call& call, double grad, double x) {
    return Forward::backward(call, grad, x);
  }

 private:
  Backward() = default;
  friend Op;
};

struct ThresholdBackward : Elementwise<ThresholdBackward, Slope> {
  static constexpr std::string_view kName = "threshold_backward";
  static constexpr std::string_view kSummary = "Gradient of relu, from its input or its output";
  static constexpr std::string_view kSource = Relu::kSource;
  static constexpr std::string_view kFormula = "dx[i] = x[i] <= threshold ? 0 : grad[i]";
  static constexpr std::string_view kTorch =
      "torch.ops.aten.threshold_backward(grad, x, threshold)";
  static constexpr std::string_view kGradient =
      "(ops.threshold_backward(g, x, threshold=threshold), torch.zeros_like(g))";
  static constexpr Attribute kAttributes[] = {
      {.name = "threshold",
       .kind = Value::Kind::kFloat,
       .standard = 0.0,
       .doc = "largest x whose gradient is 0; relu's is 0"},
  };
  static constexpr double kFlops = 1;
  static constexpr bool kIsExact = true;
  struct Functor;
  struct Call : Elementwise::Call {
    double threshold = 0;
  };
  static Call call(const Problem& problem) {
    return {Elementwise::call(problem), problem.number("threshold")};
  }
  template <class T, class Visit>
  static void with_functor(const Call& call, Visit&& visit);
  static Cases cases();
  static double formula(const Call& call, double grad, double x);
};

struct EluBackward : Backward<EluBackward, Elu> {
  static constexpr std::string_view kName = "elu_backward";
  static constexpr std::string_view kSummary = "Gradient of elu";
  static constexpr std::string_view kFormula =
      "dx[i] = grad[i] * (x[i] > 0 ? 1 : alpha * exp(x[i]))";
  static constexpr std::string_view kTorch =
      "torch.ops.aten.elu_backward(grad, alpha, 1.0, 1.0, False, x)";
  static constexpr std::string_view kGradient = R"(
    wide = torch.promote_types(x.dtype, torch.float32)  # products of 16 bits would round each
    z, both = x.to(wide), g.to(wide) * grad
    curvature = torch.where(z <= 0, alpha * torch.exp(z.clamp(max=0)), 0)
    return ops.elu_backward(g, x, alpha=alpha), (both * curvature).to(x.dtype)
    )";
  static constexpr auto& kAttributes = Elu::kAttributes;
  static constexpr double kFlops = 3;
};

struct GeluBackward : Backward<GeluBackward, Gelu> {
  static constexpr std::string_view kName = "gelu_backward";
  static constexpr std::string_view kSummary = "Gradient of gelu";
  static constexpr std::string_view kFormula = "dx[i] = grad[i] * gelu'(x[i])";
  static constexpr std::string_view kTorch =
      "torch.ops.aten.gelu_backward(grad, x, approximate=approximate)";
  static constexpr std::string_view kGradient = R"(
    wide = torch.promote_types(x.dtype, torch.float32)  # products of 16 bits would round each
    z = x.to(wide)
    if approximate == 'none':
        curvature = 0.3989422804014327 * torch.exp(-0.5 * z * z) * (2 - z * z)
    else:
        scale = 1.5957691216057308  # 2 sqrt(2 / pi)
        at = scale * (z + 0.044715 * z * z * z)
        s, rest = torch.sigmoid(at), torch.sigmoid(-at)  # 1 - s would have no digits far out
        inner = scale * (1 + 3 * 0.044715 * z * z)
        bend = scale * 6 * 0.044715 * z
        curvature = s * rest * (2 * inner + z * ((rest - s) * inner * inner + bend))
    bent = g.to(wide) * grad * curvature
    return ops.gelu_backward(g, x, approximate=approximate), bent.to(x.dtype)
    )";
  static constexpr auto& kAttributes = Gelu::kAttributes;
  static constexpr double kFlops = 14;
};

struct SiluBackward : Backward<SiluBackward, Swish> {
  static constexpr std::string_view kName = "silu_backward";
  static constexpr std::string_view kSummary = "Gradient of swish";
  static constexpr std::string_view kFormula =
      "dx[i] = grad[i] * s * (1 + x[i] * (1 - s)), s = 1 / (1 + exp(-x[i]))";
  // aten.silu_backward has no gradient of its own.
  static constexpr std::string_view kTorch = R"(
    if not (torch.is_grad_enabled() and (grad.requires_grad or x.requires_grad)):
        return torch.ops.aten.silu_backward(grad, x)
    s = torch.sigmoid(x)
    return grad * s * (1 + x * (1 - s))
    )";
  static constexpr std::string_view kGradient = R"(
    wide = torch.promote_types(x.dtype, torch.float32)  # products of 16 bits would round each
    z, both = x.to(wide), g.to(wide) * grad
    s, rest = torch.sigmoid(z), torch.sigmoid(-z)
    return ops.silu_backward(g, x), (both * s * rest * (2 + z * (rest - s))).to(x.dtype)
    )";
  static constexpr double kFlops = 8;
};

struct HardswishBackward : Backward<HardswishBackward, Hardswish> {
  static constexpr std::string_view kName = "hardswish_backward";
  static constexpr std::string_view kSummary = "Gradient of hardswish";
  static constexpr std::string_view kFormula =
      "dx[i] = grad[i] * (x[i] <= -3 ? 0 : x[i] < 3 ? x[i] / 3 + 1 / 2 : 1)";
  static constexpr std::string_view kTorch = "torch.ops.aten.hardswish_backward(grad, x)";
  static constexpr std::string_view kGradient = R"(
    is_bent = (x > -3) & (x < 3)
    return ops.hardswish_backward(g, x), torch.where(is_bent, g * grad / 3, 0)
    )";
  static constexpr double kFlops = 3;
};

struct HardshrinkBackward : Backward<HardshrinkBackward, Hardshrink> {
  static constexpr std::string_view kName = "hardshrink_backward";
  static constexpr std::string_view kSummary = "Gradient of hardshrink";
  static constexpr std::string_view kFormula = "dx[i] = |x[i]| <= lambd ? 0 : grad[i]";
  static constexpr std::string_view kTorch = "torch.ops.aten.hardshrink_backward(grad, x, lambd)";
  static constexpr std::string_view kGradient =
      "(ops.hardshrink_backward(g, x, lambd=lambd), torch.zeros_like(g))";
  static constexpr auto& kAttributes = Hardshrink::kAttributes;
  static constexpr double kFlops = 2;
};

struct SigmoidBackward : Backward<SigmoidBackward, Sigmoid> {
  static constexpr std::string_view kName = "sigmoid_backward";
  static constexpr std::string_view kSummary = "Gradient of sigmoid from its output";
  static constexpr std::string_view kFormula = "dx[i] = grad[i] * (1 - output[i]) * output[i]";
  static constexpr std::string_view kTorch = "torch.ops.aten.sigmoid_backward(grad, output)";
  static constexpr std::string_view kGradient =
      "(ops.sigmoid_backward(g, output), g * grad * (1 - 2 * output))";
  static constexpr Parameter kParameters[] = {
      Slope::kParameters[0],
      {.name = "output", .doc = "the forward's, shape and dtype of grad"},
      Slope::kParameters[2],
  };
  static constexpr double kFlops = 3;
};

// ---- The lists --------------------------------------------------------------------------------

template <class... Ops>
struct OperationList {
  static constexpr size_t kSize = sizeof...(Ops);
  template <class Op>
  static constexpr size_t kIndexOf = [] {
    constexpr bool kIsOp[] = {std::is_same_v<Op, Ops>...};
    size_t i = 0;
    while (!kIsOp[i]) ++i;
    return i;
  }();
  static constexpr std::array<Operation, kSize> rows() { return {operation_of<Ops>()...}; }
  // The row of a rung that takes them all.
  template <class Struct>
  static constexpr Rung rung(const Rung& text) {
    return rung_of<Struct, Ops...>(text);
  }
};

template <class... Ops, class... Others>
OperationList<Ops..., Others...> operator+(OperationList<Ops...>, OperationList<Others...>);

// Gradients have the first rung and those that calls get: what lies between shows nothing new.
using Functions = OperationList<Add, Mul, Relu, Elu, Gelu, Swish, Hardswish, Hardshrink, Sigmoid>;
using Gradients = OperationList<ThresholdBackward, EluBackward, GeluBackward, SiluBackward,
                                HardswishBackward, HardshrinkBackward, SigmoidBackward>;
using Operations = decltype(Functions{} + Gradients{});

// peers.cu: the peers of the operation with this index in the list.
std::span<const Peer> peers_at(size_t index);
template <class Op, class Base>
std::span<const Peer> Elementwise<Op, Base>::peers() {
  return peers_at(Operations::kIndexOf<Op>);
}

// elementwise.cu: rungs from the fastest to the one that takes everything.
std::span<const Rung* const> rungs_by_worth();
template <class Op, class Base>
std::span<const Rung* const> Elementwise<Op, Base>::by_worth(const Operands& /*operands*/) {
  return rungs_by_worth();
}

}  // namespace ws::elementwise
