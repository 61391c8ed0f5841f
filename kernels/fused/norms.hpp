// Normalisations with what stands around them in a transformer: the bias and the residual of the
// layer before, and the quantisation of the layer after.
//
//   bias_residual_layer_norm   sum = x + bias + residual
//                              y = (sum - mean) / sqrt(variance + eps) * weight + norm_bias
//   rms_norm_quantized         sum = x + residual (or x)
//                              y = e4m3(sum / sqrt(mean(sum^2) + eps) * weight / scale)
//
// sum is rounded to the dtype of x, and normalised so. scale is given, one for the tensor, or
// found, one for each row: the row's largest magnitude over 448, e4m3's largest number; 1 of a row
// of zeros (below 2^-110). What lies beyond 448 saturates, infinities too; NaN stays NaN, and one
// in a row makes all of it NaN, which has a scale of 1.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"
#include "kernels/norm/operations.hpp"

namespace ws::fused {

using norm::Columns;

enum NormOperand { kNormX, kNormResidual, kNormY, kNormSum, kNormOperands };

template <bool kCentred_>
struct NormCall {
  static constexpr bool kCentred = kCentred_;  // of layer_norm

  DType dtype;
  RowLayout<kNormOperands> rows;  // residual and sum need not exist
  RowLayout<1> scales;            // of rows, of x where there are none
  Columns bias;                   // before the norm; of layer_norm, as shift
  Columns weight;
  Columns shift;
  float eps;
  const float* scale;  // null: found for each row
};

inline constexpr float kLargestE4m3 = 448;
inline constexpr float kLeastAmax = 0x1p-110F;

inline constexpr std::string_view kNormExtents[] = {"rows", "columns", "transposed", "has"};
// What a case has beside the rest; a sum.
enum NormHas : uint8_t { kHasResidual = 1, kHasScale = 2 };

inline constexpr Parameter kNormSumOut = {.name = "sum",
                                          .role = Parameter::Role::kOut,
                                          .doc = "what was normalised, as x",
                                          .shape = "x.shape"};

template <bool kCentred>
struct FusedNorm {
  using Call = NormCall<kCentred>;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr auto& kExtentNames = kNormExtents;
  static constexpr int kOptionalExtents = 2;
  // Every rung reads an element before it writes it, in one thread, and none again. Parameters are
  // no output's memory: call() looks.
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
  static std::span<const Rung* const> by_worth(const Call& call);  // fused.cu
};

struct BiasResidualLayerNorm : FusedNorm<true> {
  static constexpr std::string_view kName = "bias_residual_layer_norm";
  static constexpr std::string_view kSummary = "layer_norm of x + bias + residual, and that sum";
  static constexpr std::string_view kSource = norm::LayerNorm::kSource;
  static constexpr std::string_view kFormula =
      "sum = x + bias + residual, y = (sum - mean) / sqrt(variance + eps) * weight + norm_bias";
  static constexpr std::string_view kTorch = R"(
h = x + bias + residual
return torch.nn.functional.layer_norm(h, h.shape[-1:], weight, norm_bias, eps), h)";
  static constexpr std::string_view kGradient = R"(
d, dweight, dnorm_bias = ops.layer_norm_backward(
    torch.zeros_like(sum) if g_y is None else g_y, sum, weight, None, None, eps=eps, bias=True)
d = d if g_sum is None else d + g_sum
return d, ops.sum(torch.atleast_2d(d).flatten(0, -2), dim=[0]), d, dweight, dnorm_bias)";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[..., N], f32, f16 or bf16"},
      {.name = "bias",
       .rows = Parameter::Rows::kShared,
       .doc = "[N], dtype of x: of the layer that x comes from"},
      {.name = "residual", .doc = "shape and dtype of x"},
      {.name = "weight", .rows = Parameter::Rows::kShared, .doc = "[N], dtype of x"},
      {.name = "norm_bias", .rows = Parameter::Rows::kShared, .doc = "[N], dtype of x"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of x",
       .shape = "x.shape"},
      kNormSumOut};
  static constexpr Attribute kAttributes[] = {{.name = "eps",
                                               .kind = Value::Kind::kFloat,
                                               .standard = 1e-5,
                                               .doc = "added to the variance"}};
};

struct RmsNormQuantized : FusedNorm<false> {
  static constexpr std::string_view kName = "rms_norm_quantized";
  static constexpr std::string_view kSummary =
      "rms_norm of x, or of x + residual, in e4m3 with a scale: given, or found for each row";
  static constexpr std::string_view kSource = norm::RmsNorm::kSource;
  static constexpr std::string_view kFormula =
      "y = e4m3(sum / sqrt(mean(sum^2) + eps) * weight / scale), sum = x + residual";
  static constexpr std::string_view kTorch = R"(
h = x if residual is None else x + residual
z = h if h.dtype == torch.float64 else h.float()
z = z * (z.square().mean(-1, keepdim=True) + eps).rsqrt() * weight
if scale is None:
    most = z.abs().amax(-1)
    s = torch.where(most > 2.0 ** -110, most / 448, 1.0)
    q = z / s[..., None]
else:
    q = z / scale
q = q.clamp(-448, 448)
return (q if q.dtype == torch.float64 else q.to(torch.float8_e4m3fn),
        s if scale is None else None, None if residual is None else h))";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[..., N], f32, f16 or bf16"},
      {.name = "weight", .rows = Parameter::Rows::kShared, .doc = "[N], dtype of x"},
      {.name = "residual", .optional = true, .doc = "shape and dtype of x, added to it first"},
      {.name = "scale",
       .optional = true,
       .rows = Parameter::Rows::kShared,
       .doc = "f32, of one element, above 0: of the whole tensor; left out, each row has its own"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "shape of x, e4m3: times its scale it is the norm",
       .shape = "x.shape",
       .torch_dtype = "torch.float8_e4m3fn"},
      {.name = "scales",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "of each row, f32, x.shape[:-1]; where scale is left out",
       .shape = "x.shape[:-1] if scale is None else None",
       .torch_dtype = "torch.float32"},
      {.name = "sum",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "x + residual, shape and dtype of x; where there is a residual",
       .shape = "None if residual is None else x.shape"}};
  static constexpr Attribute kAttributes[] = {{.name = "eps",
                                               .kind = Value::Kind::kFloat,
                                               .standard = 1e-6,
                                               .doc = "added to the mean square"}};
};

}  // namespace ws::fused
