// Matrix products of 8-bit operands: what every rung of the family computes.
//
//   int_mm      C[M, N] = A B of i8, summed exactly in i32, which wraps
//   scaled_mm   C = (A * scale_a) (B * scale_b) + bias of e4m3 and e5m2, summed in f32
//
// Scales stand for the range that 8 bits lack. Their shapes say what each is of: one of a matrix;
// one of each row of A and column of B; or one of each 128 of K in a row of A, and of each block of
// 128 x 128 of B, as DeepSeek-V3 trains.
#pragma once

#include "kernels/gemm/operations.hpp"

namespace ws::scaled_gemm {

using gemm::Contiguous;
using gemm::Matrix;

inline constexpr DTypes kFp8 = {DType::kE4m3, DType::kE5m2};

// K, and of B also N, that share a scale of blocks.
inline constexpr int64_t kBlock = 128;

// One call. Unlike gemm's, `b` is B transposed: element (n, k), and kColumns where K is contiguous.
struct Call : gemm::Call {
  DType b_dtype{};
  DType c_dtype{};
  // Scales of scaled_mm, null in int_mm: that of A[m, k] is at m * a_row + k / 128 * a_block, that
  // of B[k, n] at k / 128 * b_block + n / b_columns * b_column.
  const float* scale_a = nullptr;
  int64_t a_row = 0;
  int64_t a_block = 0;
  const float* scale_b = nullptr;
  int64_t b_block = 0;
  int64_t b_column = 0;
  int64_t b_columns = 1;
  bool by_blocks = false;      // scales differ along K
  const void* bias = nullptr;  // of c_dtype; null: none
  int64_t bias_step = 0;
  bool fast = false;  // the tensor core's own sums will do
};

struct IntMm {
  static constexpr std::string_view kName = "int_mm";
  static constexpr std::string_view kSummary = "matrix product of 8-bit integers, exact in i32";
  static constexpr std::string_view kSource = "torch._int_mm";
  static constexpr std::string_view kFormula = "c[i, j] = sum over k of a[i, k] * b[k, j]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, K], any strides"},
      {.name = "b", .doc = "[K, N], dtype of a, any strides; fastest where K is contiguous"},
      {.name = "c",
       .role = Parameter::Role::kOut,
       .doc = "[M, N], i32, modulo 2^32",
       .shape = "(a.shape[0], b.shape[1])",
       .torch_dtype = "torch.int32"},
  };
  // How the tensors lie, a sum of Views.
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K", "views"};
  static constexpr int kOptionalExtents = 1;
  enum Views : uint8_t {
    kATransposed = 1,
    kBRows = 2,  // B row by row, not column by column
  };
  static constexpr DTypes kDTypes = {DType::kI8};
  // torch's on a GPU asks for this much.
  static constexpr std::string_view kTorch =
      "refuse('torch takes over 16 rows, and K and N that 8 divides') if a.is_cuda and "
      "(a.shape[0] <= 16 or a.shape[1] % 8 or b.shape[1] % 8) else torch._int_mm(a, b)";

  using Call = scaled_gemm::Call;
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

struct ScaledMm {
  static constexpr std::string_view kOutputs[] = {"bfloat16", "float16", "float32"};

  static constexpr std::string_view kName = "scaled_mm";
  static constexpr std::string_view kSummary =
      "matrix product of scaled 8-bit floats, summed in f32";
  static constexpr std::string_view kSource =
      "torch._scaled_mm; Micikevicius et al., FP8 Formats for Deep Learning, 2022; DeepSeek-V3 "
      "Technical Report, 2024";
  static constexpr std::string_view kFormula =
      "c[i, j] = sum over k of a[i, k] * scale_a[i, k / 128] * b[k, j] * scale_b[k / 128, j / "
      "128] + bias[j]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, K], e4m3 or e5m2, any strides"},
      {.name = "b", .doc = "[K, N], e4m3 or e5m2, any strides; fastest where K is contiguous"},
      {.name = "scale_a",
       .doc = "f32: one element, [M, 1], or, of each 128 of K, [M, ceil(K / 128)]"},
      {.name = "scale_b",
       .doc = "f32: one element, [1, N], or, of 128 x 128, [ceil(K / 128), ceil(N / 128)]"},
      {.name = "bias", .optional = true, .doc = "[N], dtype of c"},
      {.name = "c",
       .role = Parameter::Role::kOut,
       .doc = "[M, N], of out_dtype",
       .shape = "(a.shape[0], b.shape[1])",
       .torch_dtype = "getattr(torch, out_dtype)"},
  };
  static constexpr Attribute kAttributes[] = {
      {.name = "out_dtype",
       .kind = Value::Kind::kChoice,
       .standard = Value::choice(0),
       .choices = kOutputs,
       .doc = "of c and of bias"},
      {.name = "use_fast_accum",
       .kind = Value::Kind::kBool,
       .standard = false,
       .doc = "the tensor core may add up all of K: on sm_90 with some 14 bits"},
  };
  // What else is to be chosen, a sum of Options.
  static constexpr std::string_view kExtentNames[] = {"M", "N", "K", "options"};
  static constexpr int kOptionalExtents = 1;
  enum Options : uint8_t {
    kRowScales = 1,
    kBlockScales = 2,
    kE5m2B = 4,  // B is e5m2, not e4m3
    kBias = 8,
    kATransposed = 16,
    kBRows = 32,  // B row by row, not column by column
  };
  static constexpr DTypes kDTypes = kFp8;
  // torch's own of 8 bits on a GPU; else the formula.
  static constexpr std::string_view kTorch = R"(
      if a.is_cuda:
          if a.dtype == b.dtype == torch.float8_e5m2:
              refuse("torch takes no product of e5m2 and e5m2")
          if a.shape[1] % 16 or b.shape[1] % 16 or b.stride(0) != 1:
              refuse("torch takes K and N that 16 divides, and b column by column")
          if scale_a.numel() > 1 and out_dtype != "bfloat16":
              refuse("torch makes bfloat16 of rows and blocks with scales")
          return torch._scaled_mm(a, b, scale_a, scale_b, bias=bias,
                                  out_dtype=getattr(torch, out_dtype),
                                  use_fast_accum=use_fast_accum)
      def spread(scale, shape):
          if scale.numel() == 1:
              return scale.double().reshape(1, 1)
          scale = scale.double()
          for d in (0, 1):
              if scale.shape[d] not in (1, shape[d]):
                  scale = scale.repeat_interleave(128, d).narrow(d, 0, shape[d])
          return scale
      left = a.double() * spread(scale_a, a.shape)
      c = left @ (b.double() * spread(scale_b, b.shape))
      return c if bias is None else c + bias.double()
      )";

  using Call = scaled_gemm::Call;
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

}  // namespace ws::scaled_gemm
