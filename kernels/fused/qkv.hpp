// The projection of attention's input, taken apart: its bias is added, and queries, keys and values
// go where each head is one matrix. qkv.cpp has how it is checked.
#pragma once

#include "catalogue/row.hpp"

namespace ws::fused {

// Where [batch, row, part, head, element] and what is made of it lie, in elements.
struct QkvCall {
  DType dtype;
  int64_t batch;
  int64_t rows;
  int64_t heads;
  int64_t depth;
  const void* qkv;
  int64_t strides[5];
  const void* bias;
  int64_t bias_strides[3];
  void* parts[3];              // q, k, v
  int64_t part_strides[3][4];  // of [batch, head, row, element]
};

struct QkvBiasTranspose {
  static constexpr std::string_view kName = "qkv_bias_transpose";
  static constexpr std::string_view kSummary =
      "queries, keys and values by heads, of one projection and its bias";
  static constexpr std::string_view kSource = "FasterTransformer's add_QKV_bias_transpose";
  static constexpr std::string_view kFormula =
      "(q, k, v)[p][b, h, s, d] = qkv[b, s, p, h, d] + bias[p, h, d]";
  static constexpr std::string_view kPartShape =
      "(qkv.shape[0], qkv.shape[3], qkv.shape[1], qkv.shape[4])";
  static constexpr std::string_view kPartDoc = "[B, H, S, D], dtype of qkv";
  static constexpr Parameter kParameters[] = {
      {.name = "qkv", .doc = "[B, S, 3, H, D], f32, f16 or bf16, any strides"},
      {.name = "bias", .doc = "[3, H, D], dtype of qkv"},
      {.name = "q", .role = Parameter::Role::kOut, .doc = kPartDoc, .shape = kPartShape},
      {.name = "k", .role = Parameter::Role::kOut, .doc = kPartDoc, .shape = kPartShape},
      {.name = "v", .role = Parameter::Role::kOut, .doc = kPartDoc, .shape = kPartShape}};
  static constexpr std::string_view kExtentNames[] = {"B", "S", "H", "D", "swapped"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch =
      "tuple((qkv + bias).permute(2, 0, 3, 1, 4).contiguous().unbind(0))";
  static constexpr std::string_view kGradient = R"(
there = next(one for one in (g_q, g_k, g_v) if one is not None)
parts = [torch.zeros_like(there) if one is None else one for one in (g_q, g_k, g_v)]
d = torch.stack(parts, 0).permute(1, 3, 0, 2, 4)
return d, ops.sum(d, dim=[0, 1]))";

  using Call = QkvCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // fused.cu
};

}  // namespace ws::fused
