// Weights of few bits: what every rung of the family computes.
//
//   quantize_blockwise     codes, scales and zeros of x [N, K], for each group_size of K in a row
//   dequantize_blockwise   w[n, k] = level(code[n, k]) * scale[n, k / group_size]
//   quantized_linear       y = x w^T + bias, w made of codes on its way into the product
//
// A code's level is, by its format: int8 and int4, itself less its group's zero, which is 0 and 8
// where there are no zeros; nf4, its entry in QLoRA's table of 16; fp8, the e4m3 that it is. Codes
// of 4 bits are two to a byte, the first of them in the upper half, as bitsandbytes packs them.
#pragma once

#include "catalogue/joined.hpp"
#include "catalogue/row.hpp"
#include "warpsmith/device.hpp"

namespace ws::quantized {

// ---- Formats ------------------------------------------------------------------------------------

enum class Format : uint8_t { kInt8, kInt4, kNf4, kFp8 };
inline constexpr std::string_view kFormats[] = {"int8", "int4", "nf4", "fp8"};

__host__ __device__ constexpr int bits_of(Format format) {
  return format == Format::kInt8 || format == Format::kFp8 ? 8 : 4;
}

// Of formats that may have zeros: codes are whole numbers, the least and so many steps more.
__host__ __device__ constexpr bool has_zeros(Format format) {
  return format == Format::kInt8 || format == Format::kInt4;
}
__host__ __device__ constexpr int least_of(Format format) {
  return format == Format::kInt8 ? -128 : 0;
}
__host__ __device__ constexpr int steps_of(Format format) {
  return format == Format::kInt8 ? 255 : 15;
}
// The code of 0 where there are no zeros, and as a byte of zeros tells it.
__host__ __device__ constexpr int middle_of(Format format) {
  return format == Format::kInt4 ? 8 : 0;
}
__host__ __device__ constexpr int zero_of(Format format, uint8_t byte) {
  return format == Format::kInt8 ? static_cast<int8_t>(byte) : byte & 15;
}

inline constexpr float kLargestE4m3 = 448;

// Quantiles of a normal distribution, 0 among them, stretched to [-1, 1]: Dettmers et al., 2023,
// appendix E.
inline constexpr float kNf4Levels[16] = {
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// ---- Calls --------------------------------------------------------------------------------------

// Element (i, j) is at i * row + j * column, in elements. An extent of 1 has any stride.
struct Matrix {
  void* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;

  template <class T>
  __host__ __device__ T* as() const {
    return static_cast<T*>(data);
  }
};

// A quantised weight [rows, columns]. Its codes are i8, e4m3, or two to a u8.
struct Weight {
  Format format;
  int64_t rows;
  int64_t columns;
  int64_t group;   // columns that share a scale; the last group of a row may have fewer
  int64_t groups;  // of a row
  Matrix codes;
  Matrix scales;  // f32
  Matrix zeros;   // i8, or u8, the lower four bits of which count; no data: none
};

// `values` is what is quantised, or what comes back, of `dtype`.
struct BlockwiseCall {
  DType dtype;
  Weight weight;
  Matrix values;
};
struct QuantizeCall : BlockwiseCall {};
struct DequantizeCall : BlockwiseCall {};

struct LinearCall {
  DType dtype;
  int64_t m;  // rows of x
  Weight weight;
  Matrix x;
  Matrix y;
  const void* bias;  // null: none
  int64_t bias_step;
};

// ---- Tables -------------------------------------------------------------------------------------

inline constexpr std::string_view kSourceOfAll =
    "Dettmers et al., QLoRA, arXiv:2305.14314; Frantar et al., GPTQ, arXiv:2210.17323";

inline constexpr Attribute kFormatAttribute = {
    .name = "format",
    .kind = Value::Kind::kChoice,
    .standard = Value::absent(),
    .choices = kFormats,
    .doc = "of codes; left out, int8 of i8, nf4 of u8 and fp8 of e4m3"};
inline constexpr Attribute kGroupAttribute = {
    .name = "group_size",
    .kind = Value::Kind::kInt,
    .standard = 64,
    .doc = "columns that share a scale, a multiple of 16"};
inline constexpr Parameter kWeightIn = {
    .name = "weight",
    .doc = "codes [N, K] of i8 or e4m3; of 4 bits [N, K / 2] of u8, two to a byte"};
inline constexpr Parameter kScalesIn = {.name = "scales", .doc = "f32 [N, ceil(K / group_size)]"};
inline constexpr Parameter kZerosIn = {
    .name = "zeros",
    .optional = true,
    .doc =
        "shape of scales: the codes of 0. Of int4 u8, its lower four bits, 8 where left out; of "
        "int8 i8, 0 where left out"};

// What a case has beside the rest; a sum.
enum Options : uint8_t {
  kZeros = 1,
  kBias = 2,
  kTransposed = 4,  // x, or the codes where there is no x
};

// In torch: the table of nf4, and the levels [N, K] of a weight.
inline constexpr std::string_view kTableInTorch = R"(
table = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
         -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
         0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
         0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
)";
inline constexpr std::string_view kLevelsInTorch = R"(
if weight.dtype != torch.uint8:
    levels = weight.detach().float()
else:
    codes = torch.stack((weight >> 4, weight & 15), -1).flatten(1)
    if format != 'int4':
        levels = torch.tensor(table, dtype=torch.float32, device=weight.device)[codes.int()]
    else:
        levels = codes.float() - (8 if zeros is None else 0)
if zeros is not None:
    zero = (zeros if format == 'int8' else zeros & 15).float()
    levels = levels - zero.repeat_interleave(group_size, 1)[:, :levels.shape[1]]
scale = scales.repeat_interleave(group_size, 1)[:, :levels.shape[1]]
)";
// The gradient of scales is that of the weight, `d`, times levels, added up over groups.
inline constexpr std::string_view kScalesGradient = R"(
levels = ops.dequantize_blockwise(weight, torch.ones_like(scales), zeros, format=format,
                                  group_size=group_size, out_dtype='float32')
d = torch.nn.functional.pad(d.float() * levels, (0, -levels.shape[1] % group_size))
dscales = d.reshape(*scales.shape, group_size).sum(-1)
)";

// ---- Operations ---------------------------------------------------------------------------------

struct QuantizeBlockwise {
  static constexpr std::string_view kName = "quantize_blockwise";
  static constexpr std::string_view kSummary =
      "a weight as codes of 8 or 4 bits, with a scale for each group of columns";
  static constexpr std::string_view kSource = kSourceOfAll;
  static constexpr std::string_view kFormula =
      "code[n, k] = nearest(x[n, k] / scale[n, k / group_size])";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[N, K], f32, f16 or bf16, any strides; of 4 bits K is even"},
      {.name = "weight",
       .role = Parameter::Role::kOut,
       .doc = "codes [N, K] of i8 or e4m3; of 4 bits [N, K / 2] of u8, two to a byte",
       .shape = "(x.shape[0], x.shape[1] if '8' in format else x.shape[1] // 2)",
       .torch_dtype = "torch.int8 if format == 'int8' else torch.float8_e4m3fn if format == 'fp8' "
                      "else torch.uint8"},
      {.name = "scales",
       .role = Parameter::Role::kOut,
       .doc = "f32 [N, ceil(K / group_size)]",
       .shape = "(x.shape[0], (x.shape[1] + group_size - 1) // group_size)",
       .torch_dtype = "torch.float32"},
      {.name = "zeros",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "shape of scales: the codes of 0, u8 of int4, i8 of int8; where zero_point is set",
       .shape = "(x.shape[0], (x.shape[1] + group_size - 1) // group_size) if zero_point else None",
       .torch_dtype = "torch.int8 if format == 'int8' else torch.uint8"}};
  static constexpr Attribute kAttributes[] = {
      {.name = "format",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kFormats,
       .doc = "of codes: int8, int4, nf4 or fp8"},
      kGroupAttribute,
      {.name = "zero_point",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "of int8, int4: codes from the least to the largest of a group, not around 0"}};
  static constexpr std::string_view kExtentNames[] = {"N", "K", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kQuantizeInTorch = R"(
n, k = x.shape
groups = torch.nn.functional.pad(x.float(), (0, -k % group_size)).reshape(
    n, -(-k // group_size), group_size)
zero = groups.new_zeros(groups.shape[:2])
low = torch.minimum(groups.amin(-1), zero)
high = torch.maximum(groups.amax(-1), zero)
most = torch.maximum(-low, high)
def nearest(values, least, largest):
    return values.round().nan_to_num(nan=least).clamp(least, largest)
divide = lambda values, scale: torch.where(scale == 0, 0.0, values / scale)
zeros = None
if zero_point:
    least, steps = (-128, 255) if format == 'int8' else (0, 15)
    span = high - low
    scale = torch.where(span.isinf(), (high / 2 - low / 2) / steps * 2, span / steps)
    zeros = nearest(divide(-low, scale), 0, steps) + least
    codes = divide(groups, scale[..., None]).round() + zeros[..., None]
    codes = nearest(codes, least, least + steps)
    zeros = zeros.to(torch.int8 if format == 'int8' else torch.uint8)
elif format == 'int8':
    scale = most / 127
    codes = nearest(divide(groups, scale[..., None]), -127, 127)
elif format == 'nf4':
    scale = most
    table = torch.tensor(table, dtype=torch.float32, device=x.device)
    codes = (divide(groups, scale[..., None])[..., None] > (table[1:] + table[:-1]) / 2).sum(-1)
elif format == 'fp8':
    scale = most / 448
    codes = divide(groups, scale[..., None]).clamp(-448, 448)
else:
    scale = most / 7
    codes = nearest(divide(groups, scale[..., None]), -7, 7) + 8
codes = codes.flatten(1)[:, :k]
if '8' in format:
    return codes.to(torch.int8 if format == 'int8' else torch.float8_e4m3fn), scale, zeros
codes = codes.to(torch.uint8)
return codes[:, ::2] << 4 | codes[:, 1::2], scale, zeros
)";
  static constexpr std::string_view kTorch = kJoined<kTableInTorch, kQuantizeInTorch>;

  using Call = QuantizeCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // quantized.cu
};

struct DequantizeBlockwise {
  static constexpr std::string_view kOutputs[] = {"bfloat16", "float16", "float32"};

  static constexpr std::string_view kName = "dequantize_blockwise";
  static constexpr std::string_view kSummary = "the numbers that codes and scales stand for";
  static constexpr std::string_view kSource = kSourceOfAll;
  static constexpr std::string_view kFormula =
      "w[n, k] = level(code[n, k]) * scale[n, k / group_size]";
  static constexpr Parameter kParameters[] = {
      kWeightIn,
      kScalesIn,
      kZerosIn,
      {.name = "w",
       .role = Parameter::Role::kOut,
       .doc = "[N, K] of out_dtype",
       .shape = "(weight.shape[0], 2 * weight.shape[1] if weight.dtype == torch.uint8 else "
                "weight.shape[1])",
       .torch_dtype = "getattr(torch, out_dtype)"}};
  static constexpr Attribute kAttributes[] = {kFormatAttribute,
                                              kGroupAttribute,
                                              {.name = "out_dtype",
                                               .kind = Value::Kind::kChoice,
                                               .standard = Value::choice(0),
                                               .choices = kOutputs,
                                               .doc = "of w"}};
  static constexpr std::string_view kExtentNames[] = {"N", "K", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = {DType::kI8, DType::kU8, DType::kE4m3};
  static constexpr std::string_view kResult =
      "return (levels * scale.float()).to(getattr(torch, out_dtype))\n";
  static constexpr std::string_view kTorch = kJoined<kTableInTorch, kLevelsInTorch, kResult>;
  static constexpr std::string_view kTake = "d = g\n";
  static constexpr std::string_view kGive = "return None, dscales, None\n";
  static constexpr std::string_view kGradient = kJoined<kTake, kScalesGradient, kGive>;

  using Call = DequantizeCall;
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

struct QuantizedLinear {
  static constexpr std::string_view kName = "quantized_linear";
  static constexpr std::string_view kSummary =
      "few rows times a weight of 8 or 4 bits, summed in f32";
  static constexpr std::string_view kSource = kSourceOfAll;
  static constexpr std::string_view kFormula =
      "y[m, n] = sum over k of x[m, k] * level(code[n, k]) * scale[n, k / group_size] + bias[n]";
  static constexpr Parameter kParameters[] = {
      {.name = "x", .doc = "[M, K], f32, f16 or bf16, any strides; fastest where M is up to 16"},
      kWeightIn,
      kScalesIn,
      kZerosIn,
      {.name = "bias", .optional = true, .doc = "[N], dtype of x"},
      {.name = "y",
       .role = Parameter::Role::kOut,
       .doc = "[M, N], dtype of x",
       .shape = "(x.shape[0], weight.shape[0])"}};
  static constexpr Attribute kAttributes[] = {kFormatAttribute, kGroupAttribute};
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K", "options"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kResult =
      "return torch.nn.functional.linear(x, (levels.to(scale.dtype) * scale).to(x.dtype), bias)\n";
  static constexpr std::string_view kTorch = kJoined<kTableInTorch, kLevelsInTorch, kResult>;
  static constexpr std::string_view kTake = R"(
w = ops.dequantize_blockwise(weight, scales, zeros, format=format, group_size=group_size,
                             out_dtype=str(x.dtype).removeprefix('torch.'))
d = ops.gemm(g.float(), x.float(), layout='tn')
)";
  static constexpr std::string_view kGive = R"(
return (ops.gemm(g, w), None, dscales, None,
        None if bias is None else ops.sum(g, dim=[0]))
)";
  static constexpr std::string_view kGradient = kJoined<kTake, kScalesGradient, kGive>;

  using Call = LinearCall;
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

}  // namespace ws::quantized
