// Cross-entropy of class indices over the last dimension, its gradient, and both in one pass.
// reference.cpp has how they are checked.
//
//   lse  = log(sum(exp(x)))                             x: a row of logits, t its target
//   loss = (1 - label_smoothing) * weight[t] * (lse - x[t])
//        + label_smoothing / V * sum over c of weight[c] * (lse - x[c])
//        + z_loss * lse^2
//
// as torch has it for each row (reduction="none"), and z_loss as PaLM added it. A row whose target
// is ignore_index counts nothing: loss, lse and gradient are 0. A target outside [0, V) is found on
// the device: nothing of its row is written, and the next call raises it.
#pragma once

#include "catalogue/joined.hpp"
#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"
#include "kernels/cross_entropy/in_torch.hpp"

namespace ws::cross_entropy {

// ---- Calls ------------------------------------------------------------------------------------

enum RowOperand { kLogits, kGradient, kRowOperands };
// A row has one of each.
enum Number { kTarget, kLoss, kLse, kDloss, kNumbers };

struct Call {
  DType dtype;
  RowLayout<kRowOperands> rows;  // of cross_entropy only logits; of the fused one both are those
  RowLayout<kNumbers> numbers;   // those that the operation has
  bool wide_targets;             // i64, else i32
  bool has_weight;
  const float* weight;  // null: none
  int64_t weight_stride;
  int64_t ignore_index;
  float label_smoothing;
  float z_loss;
  float scale;  // of dloss, 1 where there is none

  // Each class counts by a weight of its own in every row.
  bool weighs_all_classes() const { return has_weight && label_smoothing != 0; }
  bool is_plain() const { return !has_weight && label_smoothing == 0 && z_loss == 0; }
};

// The operations' own, which tell rungs apart what they are asked for.
struct ForwardCall : Call {
  static constexpr bool kHasLoss = true, kHasGradient = false;
};
struct BackwardCall : Call {
  static constexpr bool kHasLoss = false, kHasGradient = true;
};
struct FusedCall : Call {
  static constexpr bool kHasLoss = true, kHasGradient = true;
};

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr std::string_view kExtents[] = {"rows", "columns", "outer", "step", "has"};
// The extent "has": what a case has beside logits and targets; a sum.
enum Has : uint8_t {
  kWeightTensor = 1,
  kDlossTensor = 2,  // of the fused operation
  kNarrowTargets = 4,
};

inline constexpr Attribute kAttributesOfAll[] = {
    {.name = "ignore_index",
     .kind = Value::Kind::kInt,
     .standard = int64_t{-100},
     .doc = "the target of rows that count nothing, as torch has it"},
    {.name = "label_smoothing",
     .kind = Value::Kind::kFloat,
     .standard = 0.0,
     .doc = "from 0 to 1: the part of the loss that all classes share, as torch has it"},
    {.name = "z_loss",
     .kind = Value::Kind::kFloat,
     .standard = 0.0,
     .doc = "this times lse^2 is added to the loss of a row, whatever its weight"}};
inline constexpr Attribute kAttributesOfFused[] = {
    kAttributesOfAll[0],
    kAttributesOfAll[1],
    kAttributesOfAll[2],
    {.name = "scale",
     .kind = Value::Kind::kFloat,
     .standard = 1.0,
     .doc = "the gradient of each loss, times dloss where there is one"}};

inline constexpr Parameter kTargetIn = {
    .name = "target", .doc = "i64 or i32, logits.shape[:-1]: a class, or ignore_index"};
inline constexpr Parameter kWeightIn = {
    .name = "weight",
    .optional = true,
    .rows = Parameter::Rows::kShared,
    .doc = "f32 [V], of each class; 1 where left out; no gradient"};
inline constexpr Parameter kLossOut = {.name = "loss",
                                       .role = Parameter::Role::kOut,
                                       .doc = "of each row, f32, logits.shape[:-1]",
                                       .shape = "logits.shape[:-1]",
                                       .torch_dtype = "torch.float32"};
inline constexpr Parameter kLseOut = {
    .name = "lse",
    .role = Parameter::Role::kOut,
    .doc = "log(sum(exp(x))) of each row, f32, logits.shape[:-1]; what the gradient reads",
    .shape = "logits.shape[:-1]",
    .torch_dtype = "torch.float32"};

struct Common {
  static constexpr std::string_view kSource =
      "torch.nn.functional.cross_entropy; z_loss of Chowdhery et al., PaLM, 2022, arXiv:2204.02311";
  static constexpr std::string_view kFormula =
      "loss = (1 - s) * w[t] * (lse - x[t]) + s / V * sum(w * (lse - x)) + z * lse^2";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::span<const std::string_view> kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 3;
  static constexpr auto& kAttributes = kAttributesOfAll;
  static constexpr Batch kBatch = Batch::kRows;

  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations -------------------------------------------------------------------------------

struct CrossEntropyForward : Common {
  static constexpr std::string_view kName = "cross_entropy_forward";
  static constexpr std::string_view kSummary = "what a class costs of each row of logits";
  static constexpr Parameter kParameters[] = {
      {.name = "logits", .doc = "[..., V], f32, f16 or bf16"},
      kTargetIn,
      kWeightIn,
      kLossOut,
      kLseOut};
  static constexpr std::string_view kTorch = kLossInTorch;
  static constexpr std::string_view kGradient = kGradientInTorch;
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch", kTorchUsers}, {"quack", kQuack}, {"liger", kLiger}};

  using Call = ForwardCall;
  static Call call(const Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static std::span<const Rung* const> by_worth(const Call& call);  // cross_entropy.cu
};

struct CrossEntropyBackward : Common {
  static constexpr std::string_view kName = "cross_entropy_backward";
  static constexpr std::string_view kSummary = "gradient of cross_entropy_forward from its lse";
  static constexpr std::string_view kFormula =
      "dx[c] = dloss * (a * exp(x[c] - lse) - (1 - s) * w[t] * (c == t) - s / V * w[c]), a = (1 - "
      "s) * w[t] + s / V * sum(w) + 2 * z * lse";
  static constexpr bool kInPlace = true;
  static constexpr Parameter kParameters[] = {
      {.name = "logits", .doc = "the forward's, [..., V], f32, f16 or bf16"},
      kTargetIn,
      {.name = "lse", .doc = "the forward's, f32, logits.shape[:-1]"},
      {.name = "dloss", .doc = "gradient of each loss, f32, logits.shape[:-1]"},
      kWeightIn,
      {.name = "dlogits",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of logits, whose memory it may be"}};
  static constexpr std::string_view kTorch = kBackwardInTorch;
  static constexpr std::string_view kGradient = kBackwardCurved;
  static constexpr PythonPeer kPythonPeers[] = {{"quack", kQuackBackward}};

  using Call = BackwardCall;
  static Call call(const Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct CrossEntropyFused : Common {
  static constexpr std::string_view kName = "cross_entropy_fused";
  static constexpr std::string_view kSummary =
      "cross_entropy_forward and its gradient in one pass, in the memory of the logits";
  static constexpr Parameter kParameters[] = {
      {.name = "logits",
       .role = Parameter::Role::kInOut,
       .doc = "[..., V], f32, f16 or bf16; becomes its gradient"},
      kTargetIn,
      kWeightIn,
      {.name = "dloss",
       .optional = true,
       .doc = "gradient of each loss, f32, logits.shape[:-1]; 1 where left out"},
      kLossOut,
      kLseOut};
  static constexpr auto& kAttributes = kAttributesOfFused;
  static constexpr std::string_view kTorch = kFusedInTorch;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsersBoth}, {"quack", kQuackFused}};

  using Call = FusedCall;
  static Call call(const Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::cross_entropy
