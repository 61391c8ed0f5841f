// layer_norm and rms_norm over the last dimension, and their gradients: what each takes and gives.
// reference.cpp has how they are checked.
//
//   layer_norm   y = (h - mean(h)) * rstd * weight + bias,  rstd = 1 / sqrt(variance(h) + eps)
//   rms_norm     y = h * rstd * weight,                     rstd = 1 / sqrt(mean(h^2) + eps)
//
// of h = x + residual, rounded to the dtype of x, as torch rounds it; without a residual h is x.
// weight and bias have the dtype of x or are f32, both alike.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"
#include "kernels/norm/in_torch.hpp"

namespace ws::norm {

// ---- Calls ------------------------------------------------------------------------------------

// A vector with an element for each column: weight, bias, or the gradient of one.
struct Columns {
  bool exists = false;
  void* data = nullptr;
  int64_t stride = 1;

  Columns() = default;
  explicit Columns(const Tensor& tensor)
      : exists(tensor.exists()), data(tensor.data), stride(exists ? tensor.stride(0) : 1) {}
};

// Operands of the rows of a forward call.
enum ForwardOperand { kX, kY, kResidual, kSum, kForwardOperands };
// Of the statistics: a row has one of each.
enum Statistic { kMean, kRstd, kStatistics };

template <bool kCentred_>
struct ForwardCall {
  static constexpr bool kCentred = kCentred_;  // layer_norm subtracts the mean

  DType dtype;
  DType parameter_dtype;              // of weight and bias
  RowLayout<kForwardOperands> rows;   // residual and sum need not exist
  RowLayout<kStatistics> statistics;  // outputs; of x where there are none
  bool wants_statistics;
  bool allows_f16_sums;
  Columns weight;
  Columns bias;
  float eps;
};

enum BackwardOperand { kGrad, kInput, kDx, kBackwardOperands };

template <bool kCentred_>
struct BackwardCall {
  static constexpr bool kCentred = kCentred_;

  DType dtype;
  DType parameter_dtype;
  RowLayout<kBackwardOperands> rows;
  RowLayout<kStatistics> statistics;  // inputs
  bool has_statistics;                // else they are computed again, from x
  Columns weight;
  Columns dweight;
  Columns dbias;
  float eps;
};

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr std::string_view kForwardExtents[] = {"rows", "columns",  "outer",
                                                       "step", "operands", "residual"};
inline constexpr std::string_view kBackwardExtents[] = {"rows", "columns",  "outer",
                                                        "step", "operands", "recompute"};
// The extent "operands": what a case has beside x. Weight and bias of x's dtype, or ...
enum Operands : int64_t { kWeightAndBias, kNothing, kWeightOnly, kBiasOnly, kF32 };

inline constexpr std::string_view kStatisticsShape = "x.shape[:-1] if stats else None";

inline constexpr Attribute kStats = {
    .name = "stats",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "also gives the statistics of each row, which the gradient can read",
};
inline constexpr Attribute kPrenorm = {
    .name = "prenorm",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "also gives sum = x + residual, the input of a transformer's next residual",
};
inline constexpr Attribute kAccF16 = {
    .name = "acc_f16",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc =
        "the caller accepts sums in f16, 1 % off, and promises that those of a row's squares "
        "stay below 65504: rungs called acc_f16 may run",
};
inline constexpr Parameter kWeight = {.name = "weight",
                                      .optional = true,
                                      .rows = Parameter::Rows::kShared,
                                      .doc = "[N], dtype of x or f32; 1 where left out"};
inline constexpr Parameter kXFirst = {.name = "x", .doc = "[..., N], f32, f16 or bf16"};
inline constexpr Parameter kResidualIn = {
    .name = "residual", .optional = true, .doc = "shape and dtype of x, added to it first"};
inline constexpr Parameter kYOut = {
    .name = "y", .role = Parameter::Role::kOut, .doc = "shape and dtype of x"};
inline constexpr Parameter kMeanOut = {.name = "mean",
                                       .role = Parameter::Role::kOut,
                                       .optional = true,
                                       .doc = "of each row, f32, x.shape[:-1]; where stats",
                                       .shape = kStatisticsShape,
                                       .torch_dtype = "torch.float32"};
inline constexpr Parameter kRstdOut = {
    .name = "rstd",
    .role = Parameter::Role::kOut,
    .optional = true,
    .doc = "1 / standard deviation of each row, f32, x.shape[:-1]; where stats",
    .shape = kStatisticsShape,
    .torch_dtype = "torch.float32"};
inline constexpr Parameter kSumOut = {.name = "sum",
                                      .role = Parameter::Role::kOut,
                                      .optional = true,
                                      .doc = "x + residual, shape and dtype of x; where prenorm",
                                      .shape = "x.shape if prenorm else None"};
inline constexpr Parameter kGradIn = {.name = "grad",
                                      .doc = "gradient of y, [..., N], f32, f16 or bf16"};
inline constexpr Parameter kXIn = {
    .name = "x", .doc = "the forward's input (or its sum), shape and dtype of grad"};
inline constexpr Parameter kRstdIn = {
    .name = "rstd",
    .optional = true,
    .doc = "the forward's, f32, grad.shape[:-1]; computed again from x where left out"};
inline constexpr Parameter kDxOut = {
    .name = "dx", .role = Parameter::Role::kOut, .doc = "shape and dtype of grad"};
inline constexpr Parameter kDweightOut = {
    .name = "dweight",
    .role = Parameter::Role::kOut,
    .optional = true,
    .rows = Parameter::Rows::kShared,
    .doc = "shape and dtype of weight; where there is one",
    .shape = "None if weight is None else weight.shape",
    .torch_dtype = "grad.dtype if weight is None else weight.dtype"};

// What the operations of one direction have in common; defined in operations.cpp and reference.cpp.
template <bool kCentred>
struct Forward {
  using Call = ForwardCall<kCentred>;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::span<const std::string_view> kExtentNames = kForwardExtents;
  static constexpr int kOptionalExtents = 4;
  static constexpr Batch kBatch = Batch::kRows;
  static constexpr bool kInPlace = true;

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

template <bool kCentred>
struct Backward {
  using Call = BackwardCall<kCentred>;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::span<const std::string_view> kExtentNames = kBackwardExtents;
  static constexpr int kOptionalExtents = 4;
  static constexpr Batch kBatch = Batch::kRows;

  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations -------------------------------------------------------------------------------

struct LayerNorm : Forward<true> {
  static constexpr std::string_view kName = "layer_norm";
  static constexpr std::string_view kSummary =
      "rows moved to mean 0 and variance 1, scaled and shifted by column";
  static constexpr std::string_view kSource =
      "Ba, Kiros and Hinton, Layer Normalization, 2016, arXiv:1607.06450";
  static constexpr std::string_view kFormula =
      "y = (h - mean(h)) / sqrt(variance(h) + eps) * weight + bias, h = x + residual";
  // Parameters of another dtype than x's, which torch does not take, are rounded to it.
  static constexpr std::string_view kTorch = R"(
h = x if residual is None else x + residual
to_x = lambda p: None if p is None else p.to(x.dtype)
normal = torch.nn.functional.layer_norm(h, h.shape[-1:], to_x(weight), to_x(bias), eps)
m = h.float().mean(-1) if stats else None
r = (h.float().var(-1, unbiased=False) + eps).rsqrt() if stats else None
return normal, m, r, h if prenorm else None)";
  // Through mean and rstd too, where somebody uses them.
  static constexpr std::string_view kGradient = R"(
h = x if residual is None else x + residual
if g_y is None:
    dx = torch.zeros_like(h)
    dweight = None if weight is None else torch.zeros_like(weight)
    dbias = None if bias is None else torch.zeros_like(bias)
else:
    dx, dweight, dbias = ops.layer_norm_backward(
        g_y, h, weight, mean if stats else None, rstd if stats else None, eps=eps,
        bias=bias is not None)
if g_sum is not None:
    dx = dx + g_sum
if g_mean is not None:
    dx = (dx + g_mean[..., None] / h.shape[-1]).to(h.dtype)
if g_rstd is not None:
    slope = (g_rstd * rstd ** 3)[..., None] / h.shape[-1]
    dx = (dx - slope * (h - mean[..., None])).to(h.dtype)
return (dx, None if weight is None else dweight, None if bias is None else dbias,
        None if residual is None else dx))";
  static constexpr Parameter kParameters[] = {kXFirst,
                                              kWeight,
                                              {.name = "bias",
                                               .optional = true,
                                               .rows = Parameter::Rows::kShared,
                                               .doc = "[N], dtype of weight; 0 where left out"},
                                              kResidualIn,
                                              kYOut,
                                              kMeanOut,
                                              kRstdOut,
                                              kSumOut};
  static constexpr Attribute kAttributes[] = {
      {.name = "eps",
       .kind = Value::Kind::kFloat,
       .standard = 1e-5,
       .doc = "added to the variance, as torch's layer_norm has it"},
      kStats,
      kPrenorm,
      kAccF16};
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack",
       "quack.rmsnorm.layernorm_fwd(x, weight, bias, eps) if residual is None and "
       "weight is not None and weight.dtype == torch.float32 else "
       "refuse('takes a weight of f32 and no residual')"},
  };

  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);  // norm.cu
};

struct RmsNorm : Forward<false> {
  static constexpr std::string_view kName = "rms_norm";
  static constexpr std::string_view kSummary = "rows scaled to mean square 1, then by column";
  static constexpr std::string_view kSource =
      "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019, arXiv:1910.07467";
  static constexpr std::string_view kFormula =
      "y = h / sqrt(mean(h^2) + eps) * weight, h = x + residual";
  static constexpr std::string_view kTorch = R"(
h = x if residual is None else x + residual
w = None if weight is None else weight.to(x.dtype)
normal = torch.nn.functional.rms_norm(h, h.shape[-1:], w, eps)
r = (h.float().square().mean(-1) + eps).rsqrt() if stats else None
return normal, r, h if prenorm else None)";
  static constexpr std::string_view kGradient = R"(
h = x if residual is None else x + residual
if g_y is None:
    dx = torch.zeros_like(h)
    dweight = None if weight is None else torch.zeros_like(weight)
else:
    dx, dweight = ops.rms_norm_backward(
        g_y, h, weight, rstd if stats else None, eps=eps)
if g_sum is not None:
    dx = dx + g_sum
if g_rstd is not None:
    dx = (dx - (g_rstd * rstd ** 3)[..., None] / h.shape[-1] * h).to(h.dtype)
return dx, None if weight is None else dweight, None if residual is None else dx)";
  static constexpr Parameter kParameters[] = {kXFirst, kWeight,  kResidualIn,
                                              kYOut,   kRstdOut, kSumOut};
  static constexpr Attribute kAttributes[] = {
      {.name = "eps",
       .kind = Value::Kind::kFloat,
       .standard = 0x1p-23,
       .doc = "added to the mean square; by default torch's, the epsilon of f32"},
      kStats,
      kPrenorm,
      kAccF16};
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack", "quack.rmsnorm.rmsnorm_fwd(x, weight, residual=residual, eps=eps)"},
      {"liger",
       "liger_kernel.ops.rms_norm.rms_norm_forward(x, weight, eps, 0.0, 'llama', None) "
       "if residual is None else refuse('adds no residual')"},
  };

  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);  // norm.cu
};

struct LayerNormBackward : Backward<true> {
  static constexpr std::string_view kName = "layer_norm_backward";
  static constexpr std::string_view kSummary =
      "gradients of layer_norm: of its input, its weight and its bias";
  static constexpr std::string_view kSource = LayerNorm::kSource;
  static constexpr std::string_view kFormula =
      "dx = (u - mean(u) - z * mean(u * z)) * rstd, dweight = sum(grad * z), dbias = sum(grad) "
      "over "
      "rows, u = grad * weight, z = (x - mean) * rstd";
  // torch's own on GPUs; it has no gradient with respect to mean and rstd.
  static constexpr std::string_view kTorch = R"(
parameters = x.dtype if weight is None else weight.dtype
if x.is_cuda and not (torch.is_grad_enabled() and x.requires_grad):
    w = None if weight is None else weight.to(x.dtype)
    like_bias = x.new_empty(x.shape[-1:]) if bias else None
    if mean is None:
        m, r = torch.native_layer_norm(x, x.shape[-1:], None, None, eps)[1:]
    else:
        m, r = mean[..., None], rstd[..., None]
    d = torch.ops.aten.native_layer_norm_backward(
        grad, x, x.shape[-1:], m, r, w, like_bias, [True, weight is not None, bias])
    return (d[0], None if weight is None else d[1].to(parameters),
            d[2].to(parameters) if bias else None)
g, h = grad.double(), x.double()
h = h - (h.mean(-1, True) if mean is None else mean.double()[..., None])
r = ((h.square().mean(-1) + eps).rsqrt() if rstd is None else rstd.double())[..., None]
z = h * r
u = g if weight is None else g * weight
dx = r * (u - u.mean(-1, True) - z * (u * z).mean(-1, True))
return (dx.to(x.dtype), None if weight is None else sum_to(g * z, weight.shape).to(parameters),
        sum_to(g, x.shape[-1:]).to(parameters) if bias else None))";
  static constexpr std::string_view kGradient = kLayerNormCurved;
  static constexpr Parameter kParameters[] = {
      kGradIn,
      kXIn,
      kWeight,
      {.name = "mean",
       .optional = true,
       .doc = "the forward's, f32, grad.shape[:-1]; computed again from x where left out"},
      kRstdIn,
      kDxOut,
      kDweightOut,
      {.name = "dbias",
       .role = Parameter::Role::kOut,
       .optional = true,
       .rows = Parameter::Rows::kShared,
       .doc = "[N], dtype of weight, or of grad where there is none; where bias",
       .shape = "x.shape[-1:] if bias else None",
       .torch_dtype = "grad.dtype if weight is None else weight.dtype"}};
  static constexpr Attribute kAttributes[] = {
      {.name = "eps",
       .kind = Value::Kind::kFloat,
       .standard = 1e-5,
       .doc = "the forward's: of use where mean and rstd are left out"},
      {.name = "bias",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "also gives dbias: the forward had a bias"}};
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack",
       "quack.rmsnorm.layernorm_bwd(x, weight, grad, rstd, mean) if rstd is not None and "
       "weight is not None and weight.dtype == torch.float32 else "
       "refuse('takes a weight of f32 and the statistics')"},
  };

  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);  // norm.cu
};

struct RmsNormBackward : Backward<false> {
  static constexpr std::string_view kName = "rms_norm_backward";
  static constexpr std::string_view kSummary =
      "gradients of rms_norm: of its input and of its weight";
  static constexpr std::string_view kSource = RmsNorm::kSource;
  static constexpr std::string_view kFormula =
      "dx = (u - z * mean(u * z)) * rstd, dweight = sum(grad * z) over rows, u = grad * weight, "
      "z = x * rstd";
  // torch has the fused gradient on GPUs only.
  static constexpr std::string_view kTorch = R"(
r = (x.float().square().mean(-1) + eps).rsqrt() if rstd is None else rstd
if x.is_cuda:
    w = None if weight is None else weight.to(x.dtype)
    d = torch.ops.aten._fused_rms_norm_backward(
        grad, x, x.shape[-1:], r[..., None], w, [True, weight is not None])
    return d[0], None if weight is None else d[1].to(weight.dtype)
r = r.double()[..., None]
z = x.double() * r
u = grad.double() * (1 if weight is None else weight)
dx = r * (u - z * (u * z).mean(-1, True))
dweight = (grad.double() * z).reshape(-1, x.shape[-1]).sum(0)
return dx.to(x.dtype), None if weight is None else dweight.to(weight.dtype))";
  static constexpr std::string_view kGradient = kRmsNormCurved;
  static constexpr Parameter kParameters[] = {kGradIn, kXIn, kWeight, kRstdIn, kDxOut, kDweightOut};
  static constexpr Attribute kAttributes[] = {
      {.name = "eps",
       .kind = Value::Kind::kFloat,
       .standard = 0x1p-23,
       .doc = "the forward's: of use where rstd is left out"}};
  static constexpr PythonPeer kPythonPeers[] = {
      {"quack",
       "quack.rmsnorm.rmsnorm_bwd(x, weight, grad, rstd) if rstd is not None else "
       "refuse('takes the statistics')"},
  };

  static std::span<const Peer> peers();
  static std::span<const Rung* const> by_worth(const Call& call);  // norm.cu
};

}  // namespace ws::norm
