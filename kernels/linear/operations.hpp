// Products with an epilogue: what happens to a sum between the register that it was added up in and
// memory, so that it need not go there and back first.
//
//   addmm             y = activation(beta input + alpha mat1 mat2), torch.addmm and an activation
//   baddbmm           y[i] = beta input[i] + alpha batch1[i] batch2[i], torch.baddbmm
//   swiglu_linear     y = silu(x gate^T) * (x up^T), weight the rows of gate, then those of up
//   gemm_accumulate   c += a b in f32, for gradients that several steps add up
//
// All in f32 and rounded once, at the end. There is no layout to choose: matrices have any strides,
// and a transposed view is as good as a plain one.
#pragma once

#include <type_traits>

#include "catalogue/row.hpp"
#include "kernels/gemm/operations.hpp"

namespace ws::linear {

using gemm::Matrix;

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu };

// What becomes of a product: activation(alpha a b + beta source).
struct Added {
  DType source_dtype{};
  Matrix source;  // of the shape of c, strides of 0 where it repeats; no data where beta is 0
  float alpha = 1;
  float beta = 1;
  Activation activation = Activation::kNone;
};
// Both addmm and gemm_accumulate: the latter's source is its c.
struct Call : gemm::Call, Added {
  DType out_dtype{};
};
// The same of each product of a batch.
struct BatchedCall : gemm::BatchedCall, Added {};

// The same from the other side: c^T = b^T a^T + source^T.
template <class C>
  requires std::is_base_of_v<Added, C>
C transposed(const C& call) {
  C turned = call;
  static_cast<gemm::Call&>(turned) = gemm::transposed(static_cast<const gemm::Call&>(call));
  gemm::Call source = call;
  source.c = call.source;
  turned.source = gemm::transposed(source).c;
  return turned;
}

// How the matrices of a case lie, a sum: the two factors and what is written.
enum Views : uint8_t { kFirstTransposed = 1, kSecondTransposed = 2, kOutputTransposed = 4 };

// c = silu(a b) * (a b'), b the first n columns of the matrix `b`, b' the n after those.
struct GatedCall : gemm::Call {};

struct Addmm {
  static constexpr std::string_view kActivations[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
  static constexpr std::string_view kOutDTypes[] = {"float32"};

  static constexpr std::string_view kName = "addmm";
  static constexpr std::string_view kSummary =
      "matrix product, a scaled matrix added, an activation, rounded once";
  static constexpr std::string_view kSource = "torch.addmm";
  static constexpr std::string_view kFormula =
      "y[i, j] = activation(beta * input[i, j] + alpha * sum over k of mat1[i, k] * mat2[k, j])";
  static constexpr Parameter kParameters[] = {
      {.name = "input",
       .doc = "[M, N], or what broadcasts to it: a bias is [N]; not read where beta is 0"},
      {.name = "mat1", .doc = "[M, K], any strides, dtype of input"},
      {.name = "mat2", .doc = "[K, N], any strides, dtype of input"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M, N], dtype of input or as `out_dtype` says",
       .shape = "(mat1.shape[0], mat2.shape[1])",
       .torch_dtype = "input.dtype if out_dtype is None else getattr(torch, out_dtype)"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "beta", .kind = Value::Kind::kFloat, .standard = 1.0, .doc = "what times input"},
      {.name = "alpha",
       .kind = Value::Kind::kFloat,
       .standard = 1.0,
       .doc = "what times the product"},
      {.name = "activation",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kActivations,
       .doc = "of the sum; gelu has the error function, gelu_tanh its approximation"},
      {.name = "out_dtype",
       .kind = Value::Kind::kChoice,
       .standard = Value::absent(),
       .choices = kOutDTypes,
       .doc = "of y; none: that of input"},
      {.name = "precision",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = gemm::Gemm::kPrecisions,
       .doc = "tf32: f32 operands may be cut to 10 bits of mantissa; of f16 and bf16 nothing is"},
  };
  // views: a sum of Views; input: one of Inputs.
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K", "input", "views"};
  static constexpr int kOptionalExtents = 2;
  enum Inputs : uint8_t { kBias, kMatrix, kColumn, kScalar, kMatrixTransposed };
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = R"(
F = torch.nn.functional
cuts = precision == 'tf32' and mat1.dtype == torch.float32 and mat1.is_cuda
if cuts and not torch.backends.cuda.matmul.allow_tf32:
    refuse('is not allowed TF32: torch.backends.cuda.matmul.allow_tf32')
if out_dtype is None:
    h = torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
elif mat1.is_cuda and mat1.dtype != torch.float32:
    h = torch.addmm(input, mat1, mat2, getattr(torch, out_dtype), beta=beta, alpha=alpha)
else:
    wide = [x.to(getattr(torch, out_dtype)) for x in (input, mat1, mat2)]
    h = torch.addmm(*wide, beta=beta, alpha=alpha)
if activation == 'relu':
    return torch.relu(h)
if activation == 'silu':
    return F.silu(h)
if activation != 'none':
    return F.gelu(h, approximate='tanh' if activation == 'gelu_tanh' else 'none')
return h)";
  // An activation's slope is that of the sum, which is computed again; relu's is seen in y.
  static constexpr std::string_view kGradient = R"(
d = g
if activation == 'relu':
    d = ops.threshold_backward(g, y)
elif activation != 'none':
    h = ops.addmm(input, mat1, mat2, beta=beta, alpha=alpha, out_dtype=out_dtype,
                  precision=precision)
    if activation == 'silu':
        d = ops.silu_backward(g, h)
    else:
        approximate = 'tanh' if activation == 'gelu_tanh' else 'none'
        d = ops.gelu_backward(g, h, approximate=approximate)
added = d if beta == 1 else d * beta
product = (d if alpha == 1 else d * alpha).to(mat1.dtype)
is_bias = input.dim() == 1 and input.shape[0] == d.shape[1] and d.shape[1] > 1
lies_across = mat2.stride(0) == 1  # a weight's transpose: its gradient is to lie as the weight does
added = ops.sum(added, dim=[0]) if is_bias else sum_to(added, input.shape)
return (added.to(input.dtype),
        ops.gemm(product, mat2, layout='nt', precision=precision),
        ops.gemm(product, mat1, layout='tn', precision=precision).t() if lies_across else
        ops.gemm(mat1, product, layout='tn', precision=precision)))";
  // cuBLASLt's own epilogues; gelu there is the approximation by tanh.
  static constexpr PythonPeer kPythonPeers[] = {
      {"cublasLt epilogue",
       "torch._addmm_activation(input, mat1, mat2, beta=beta, alpha=alpha, "
       "use_gelu=activation == 'gelu_tanh') "
       "if activation in ('relu', 'gelu_tanh') and out_dtype is None and input.dim() == 1 else "
       "refuse('torch has relu and gelu_tanh of a bias')"},
  };

  using Call = linear::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct Baddbmm {
  static constexpr std::string_view kName = "baddbmm";
  static constexpr std::string_view kSummary =
      "matrix products of a batch, a scaled batch added, rounded once";
  static constexpr std::string_view kSource = "torch.baddbmm";
  static constexpr std::string_view kFormula =
      "y[i, j, l] = beta * input[i, j, l] + alpha * sum over k of batch1[i, j, k] * batch2[i, k, "
      "l]";
  static constexpr Parameter kParameters[] = {
      {.name = "input",
       .doc = "[B, M, N], or what broadcasts to it; dtype of batch1, or f32 where y is; not read "
              "where beta is 0"},
      {.name = "batch1", .doc = "[B, M, K], any strides"},
      {.name = "batch2", .doc = "[B, K, N], any strides, dtype of batch1"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[B, M, N], dtype of batch1 or as `out_dtype` says",
       .shape = "(batch1.shape[0], batch1.shape[1], batch2.shape[2])",
       .torch_dtype = "batch1.dtype if out_dtype is None else getattr(torch, out_dtype)"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "beta", .kind = Value::Kind::kFloat, .standard = 1.0, .doc = "what times input"},
      {.name = "alpha",
       .kind = Value::Kind::kFloat,
       .standard = 1.0,
       .doc = "what times the products"},
      {.name = "out_dtype",
       .kind = Value::Kind::kChoice,
       .standard = Value::absent(),
       .choices = gemm::Bmm::kOutDTypes,
       .doc = "of y; none: that of batch1"},
      {.name = "precision",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = gemm::Gemm::kPrecisions,
       .doc = "tf32: f32 operands may be cut to 10 bits of mantissa; of f16 and bf16 nothing is"},
  };
  // views: a sum of Views; input: one of Inputs.
  static constexpr std::string_view kExtentNames[] = {"B", "M", "N", "K", "input", "views"};
  static constexpr int kOptionalExtents = 2;
  // The whole batch; one matrix, a row of columns or a number for all; a batch in f32, whose
  // operands are not.
  enum Inputs : uint8_t { kWhole, kMatrix, kBias, kScalar, kF32OverF16, kF32OverBf16 };
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = R"(
is_f32 = batch1.dtype == torch.float32
cuts = precision == 'tf32' and is_f32 and batch1.is_cuda
if cuts and not torch.backends.cuda.matmul.allow_tf32:
    refuse('is not allowed TF32: torch.backends.cuda.matmul.allow_tf32')
if out_dtype is None or is_f32:
    return torch.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)
if batch1.is_cuda:
    wide = getattr(torch, out_dtype)
    return torch.baddbmm(input, batch1, batch2, wide, beta=beta, alpha=alpha)
wide = [x.to(getattr(torch, out_dtype)) for x in (input, batch1, batch2)]
return torch.baddbmm(*wide, beta=beta, alpha=alpha))";
  static constexpr std::string_view kGradient = R"(
added = g if beta == 1 else g * beta
product = (g if alpha == 1 else g * alpha).to(batch1.dtype)
return (sum_to(added, input.shape).to(input.dtype),
        ops.bmm(product, batch2.transpose(1, 2), precision=precision),
        ops.bmm(batch1.transpose(1, 2), product, precision=precision)))";

  using Call = BatchedCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct SwigluLinear {
  static constexpr std::string_view kName = "swiglu_linear";
  static constexpr std::string_view kSummary =
      "two products of one input, the one gated by the silu of the other";
  static constexpr std::string_view kSource =
      "Shazeer, GLU Variants Improve Transformer, 2020, arXiv:2002.05202";
  static constexpr std::string_view kFormula =
      "y[i, j] = silu(g[i, j]) * g[i, F + j], g[i, j] = sum over k of x[i, k] * weight[j, k]";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[M, K], any strides, f32, f16 or bf16"},
      {.name = "weight", .doc = "[2 F, K], any strides, dtype of x: F rows of the gate, then F"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M, F], dtype of x",
       .shape = "(x.shape[0], weight.shape[0] // 2)"},
  };
  static constexpr std::string_view kExtentNames[] = {"M", "F", "K", "views"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = R"(
gate, up = torch.nn.functional.linear(x, weight).chunk(2, -1)
return torch.nn.functional.silu(gate) * up)";
  static constexpr std::string_view kGradient = R"(
gate, up = ops.gemm(x, weight, layout='nt').float().chunk(2, -1)
s = torch.sigmoid(gate)
d = torch.cat((g * up * (s + gate * s * (1 - s)), g * gate * s), -1).to(x.dtype)
return ops.gemm(d, weight), ops.gemm(d, x, layout='tn'))";

  using Call = GatedCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct GemmAccumulate {
  static constexpr std::string_view kName = "gemm_accumulate";
  static constexpr std::string_view kSummary = "adds a matrix product to a matrix of f32";
  static constexpr std::string_view kSource =
      "the accumulated weight gradients of large language models, as in Megatron-LM";
  static constexpr std::string_view kFormula = "c[i, j] += sum over k of a[i, k] * b[k, j]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, K], any strides, f32, f16 or bf16; of a gradient g its transpose"},
      {.name = "b", .doc = "[K, N], any strides, dtype of a"},
      {.name = "c", .role = Parameter::Role::kInOut, .doc = "[M, N], f32"},
  };
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K", "views"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = R"(
if a.is_cuda and a.dtype != c.dtype:
    return torch.addmm(c, a, b, c.dtype)
return torch.addmm(c, a.to(c.dtype), b.to(c.dtype)))";

  using Call = linear::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::linear
