// What the family computes, over the last dimension, and what its rungs take.
//
//   softmax              y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))
//   log_softmax          y[i] = x[i] - max(x) - log(sum(exp(x - max(x))))
//   scale_mask_softmax   softmax of mask[i] ? scale * x[i] : fill, as attention has it
//
// and the gradients of all three. As in torch, -inf is a masked element, a row of nothing else is
// NaN, and a NaN or +inf makes its row NaN.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"

namespace ws::softmax {

// What kernels do with a row: row_operations.hpp.
template <bool kLogarithm>
struct Forward;
template <bool kLogarithm>
struct Backward;
struct ScaleMaskForward;
struct ScaleMaskBackward;

// ---- Calls ------------------------------------------------------------------------------------

// A call of any of them. Each operation's own names, as RowOperation, what kernels do with a row.
struct RowsCall {
  DType dtype;
  RowLayout<3> rows;  // inputs, then the output

  int inputs() const { return rows.operands - 1; }
};

// Whether rows follow each other without gaps, as the bottom rungs want them.
inline bool is_dense(const RowsCall& call, Why& why) {
  const RowLayout<3>& rows = call.rows;
  for (size_t k = 0; static_cast<int>(k) < rows.operands; ++k) {
    const bool rows_follow =
        rows.rows <= 1 || (rows.outer == 1 && rows.strides[k][0] == rows.columns);
    if (!why.unless(rows_follow && rows.inner[k] == 1, "takes contiguous tensors, but the rows of ",
                    rows.columns, " elements of operand ", k, " are ", rows.strides[k][0],
                    " apart, their elements ", rows.inner[k])) {
      return false;
    }
  }
  return true;
}

// The mask's rows lie apart: where it is broadcast, it walks unevenly through what the others may
// walk through evenly.
struct MaskedCall : RowsCall {
  RowLayout<1> mask;
  float scale;
};

// With rows of these tensors, inputs first; and with that mask.
inline RowsCall rows_call(const Problem& problem, std::initializer_list<int> tensors) {
  std::array<const Tensor*, 3> operands{};
  size_t count = 0;
  for (const int i : tensors) operands[count++] = &problem.tensor(i);
  return {problem.dtype(), row_layout<3>(std::span(operands.data(), count))};
}
inline MaskedCall masked_call(const Problem& problem, std::initializer_list<int> tensors,
                              int mask) {
  return {rows_call(problem, tensors), row_layout(problem.tensor(mask)),
          static_cast<float>(problem.number("scale"))};
}

// ---- What they share --------------------------------------------------------------------------

inline constexpr Parameter kX = {.name = "x", .doc = "[..., N], f32, f16 or bf16"};
inline constexpr Parameter kOut = {
    .name = "out", .role = Parameter::Role::kOut, .doc = "shape and dtype of the first tensor"};
inline constexpr Parameter kMask = {
    .name = "mask",
    .rows = Parameter::Rows::kBroadcast,
    .doc = "bool, broadcast to the first tensor: true keeps an element"};
inline constexpr Parameter kGrad = {
    .name = "grad", .doc = "gradient of the forward's output, [..., N], f32, f16 or bf16"};
inline constexpr Parameter kOutput = {.name = "output",
                                      .doc = "the forward's output, shape and dtype of grad"};
inline constexpr Attribute kBounded = {
    .name = "bounded",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "the caller promises |x| <= 64, so that rungs that do not subtract the maximum may run"};
inline constexpr Attribute kScale = {.name = "scale",
                                     .kind = Value::Kind::kFloat,
                                     .standard = 1.0,
                                     .doc = "factor of x, in f32: 1 / sqrt(d) in attention"};
inline constexpr Attribute kFill = {
    .name = "fill",
    .kind = Value::Kind::kFloat,
    .standard = -10000.0,
    .doc = "what masked elements become; with -inf a row of nothing else is NaN"};

struct Common {
  static constexpr std::string_view kSource =
      "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, arXiv:1805.02867";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr int kOptionalExtents = 2;
  // All rungs read an element before they write it, and by then its row's total is complete.
  static constexpr bool kInPlace = true;
  static constexpr Batch kBatch = Batch::kRows;

  static void infer(Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
};

struct Unmasked : Common {
  // `outer` > 0 puts a dimension before the rows that lies between them in memory (a transposed
  // tensor); `step` > 1 leaves gaps between the elements of a row; `down` = 1 lays rows side by
  // side, `outer` matrices of them (a dimension that is not the last).
  static constexpr std::string_view kExtentNames[] = {"rows", "columns", "outer", "step", "down"};
  static constexpr int kOptionalExtents = 3;

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
};

struct Masked : Common {
  // The heads lie one after the other and share the mask.
  static constexpr std::string_view kExtentNames[] = {"rows", "columns", "heads", "step"};

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
};

// ---- The operations ---------------------------------------------------------------------------

struct Softmax : Unmasked {
  static constexpr std::string_view kName = "softmax";
  static constexpr std::string_view kSummary = "exponentials of a row, scaled to add up to 1";
  static constexpr std::string_view kFormula = "y[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))";
  static constexpr std::string_view kSeedPrefix = kName;
  static constexpr std::string_view kTorch = "torch.softmax(x, -1)";
  static constexpr std::string_view kGradient = "(ops.softmax_backward(g, out),)";
  static constexpr Parameter kParameters[] = {kX, kOut};
  static constexpr Attribute kAttributes[] = {kBounded};
  static constexpr PythonPeer kPythonPeers[] = {{"quack", "quack.softmax.softmax_fwd(x)"}};

  struct Call : RowsCall {
    using RowOperation = Forward<false>;
    bool bounded;
  };
  static Call call(const Problem& problem) {
    return {rows_call(problem, {0, 1}), problem.flag("bounded")};
  }
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct LogSoftmax : Unmasked {
  static constexpr std::string_view kName = "log_softmax";
  static constexpr std::string_view kSummary = "logarithm of the softmax of a row";
  static constexpr std::string_view kFormula = "y[i] = x[i] - max(x) - log(sum(exp(x - max(x))))";
  static constexpr std::string_view kSeedPrefix = kName;
  static constexpr std::string_view kTorch = "torch.log_softmax(x, -1)";
  static constexpr std::string_view kGradient = "(ops.log_softmax_backward(g, out),)";
  static constexpr Parameter kParameters[] = {kX, kOut};
  static constexpr Attribute kAttributes[] = {kBounded};

  struct Call : RowsCall {
    using RowOperation = Forward<true>;
  };
  static Call call(const Problem& problem) { return {rows_call(problem, {0, 1})}; }
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct ScaleMaskSoftmax : Masked {
  static constexpr std::string_view kName = "scale_mask_softmax";
  static constexpr std::string_view kSummary =
      "softmax of a scaled row, of the elements that a mask keeps";
  static constexpr std::string_view kFormula = "y = softmax(mask ? scale * x : fill)";
  static constexpr std::string_view kTorch =
      "torch.softmax(torch.where(mask, x * scale, fill), -1)";
  static constexpr std::string_view kGradient =
      "(ops.scale_mask_softmax_backward(g, out, mask, scale=scale), None)";
  static constexpr Parameter kParameters[] = {kX, kMask, kOut};
  static constexpr Attribute kAttributes[] = {kScale, kFill};

  struct Call : MaskedCall {
    using RowOperation = ScaleMaskForward;
    float fill;
  };
  static Call call(const Problem& problem) {
    return {masked_call(problem, {0, 2}, 1), static_cast<float>(problem.number("fill"))};
  }
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct SoftmaxBackward : Unmasked {
  static constexpr std::string_view kName = "softmax_backward";
  static constexpr std::string_view kSummary = "gradient of softmax from its output";
  static constexpr std::string_view kFormula = "dx[i] = (grad[i] - sum(grad * output)) * output[i]";
  static constexpr std::string_view kSeedPrefix = kName;
  static constexpr std::string_view kTorch =
      "torch._softmax_backward_data(grad, output, -1, output.dtype)";
  static constexpr std::string_view kGradient = R"(
    inner = (g * output).sum(-1, keepdim=True)
    total = (grad * output).sum(-1, keepdim=True)
    return (g - inner) * output, g * (grad - total) - grad * inner
    )";
  static constexpr Parameter kParameters[] = {kGrad, kOutput, kOut};
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack", "quack.softmax.softmax_bwd(grad, output)"}};

  struct Call : RowsCall {
    using RowOperation = Backward<false>;
  };
  static Call call(const Problem& problem) { return {rows_call(problem, {0, 1, 2})}; }
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct LogSoftmaxBackward : Unmasked {
  static constexpr std::string_view kName = "log_softmax_backward";
  static constexpr std::string_view kSummary = "gradient of log_softmax from its output";
  static constexpr std::string_view kFormula = "dx[i] = grad[i] - exp(output[i]) * sum(grad)";
  static constexpr std::string_view kSeedPrefix = kName;
  static constexpr std::string_view kTorch =
      "torch._log_softmax_backward_data(grad, output, -1, output.dtype)";
  static constexpr std::string_view kGradient = R"(
    probability = output.exp()
    inner = (g * probability).sum(-1, keepdim=True)
    return g - inner, -g * probability * grad.sum(-1, keepdim=True)
    )";
  static constexpr Parameter kParameters[] = {kGrad, kOutput, kOut};

  struct Call : RowsCall {
    using RowOperation = Backward<true>;
  };
  static Call call(const Problem& problem) { return {rows_call(problem, {0, 1, 2})}; }
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct ScaleMaskSoftmaxBackward : Masked {
  static constexpr std::string_view kName = "scale_mask_softmax_backward";
  static constexpr std::string_view kSummary = "gradient of scale_mask_softmax from its output";
  static constexpr std::string_view kFormula =
      "dx[i] = mask[i] ? scale * (grad[i] - sum(grad * output)) * output[i] : 0";
  static constexpr std::string_view kTorch =
      "torch.where(mask, torch._softmax_backward_data(grad, output, -1, output.dtype) * scale, 0)";
  static constexpr std::string_view kGradient = R"(
    kept = torch.where(mask, g * scale, 0)
    inner = (kept * output).sum(-1, keepdim=True)
    total = (grad * output).sum(-1, keepdim=True)
    return (kept - inner) * output, kept * (grad - total) - grad * inner, None
    )";
  static constexpr Parameter kParameters[] = {kGrad, kOutput, kMask, kOut};
  static constexpr Attribute kAttributes[] = {kScale};

  struct Call : MaskedCall {
    using RowOperation = ScaleMaskBackward;
  };
  static Call call(const Problem& problem) { return {masked_call(problem, {0, 1, 3}, 2)}; }
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

// The output is as the first tensor, and so are all inputs but a mask, which broadcasts to it.
inline void Common::infer(Problem& problem) {
  const std::span<const Parameter> parameters = problem.operation->parameters;
  const Tensor& first = problem.tensor(0);
  // Not require(): describing tensors that fit would cost more than all the rest of a call.
  if (!kDTypes.has(first.dtype)) [[unlikely]] {
    throw InvalidArgument(
        concatenate(problem.operation->name, " takes ", to_string(kDTypes), ", got ", first));
  }
  const auto out = static_cast<int>(parameters.size()) - 1;
  for (int k = 1; k < out; ++k) {
    Tensor& other = problem.tensor(k);
    const bool is_mask = parameters[static_cast<size_t>(k)].name == kMask.name;
    const Tensor fitted = is_mask ? broadcast(other, first) : other;
    if (fitted.exists() && fitted.same_shape(first) &&
        other.dtype == (is_mask ? DType::kBool : first.dtype)) [[likely]] {
      other = fitted;
      continue;
    }
    throw InvalidArgument(
        concatenate(problem.operation->name, ": '", parameters[0].name, "' is ", first, " but '",
                    parameters[static_cast<size_t>(k)].name, "' is ", other,
                    is_mask ? ", not bool of a shape that broadcasts to it" : ""));
  }
  problem.tensor(out) = Tensor::like(first);
}

}  // namespace ws::softmax
