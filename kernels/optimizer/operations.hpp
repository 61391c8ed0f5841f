// AdamW in place: of one tensor, and of many in one launch. reference.cpp has how they are checked.
//
//   p -= lr * weight_decay * p                                decoupled weight decay
//   m += (1 - beta1) * (g - m)                                exp_avg
//   v  = beta2 * v + (1 - beta2) * g^2                        exp_avg_sq
//   p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
//
// as torch.optim.AdamW has it; t, the number of this step, lies on the device, so that a CUDA graph
// replays. Arithmetic is in f32, each result rounded once. What a gradient scaler knows lies there
// too: gradients are divided by grad_scale, and where found_inf is not 0 nothing is written.
#pragma once

#include "catalogue/row.hpp"
#include "catalogue/row_layout.hpp"

namespace ws::optimizer {

// ---- Calls --------------------------------------------------------------------------------------

// What the host knows of a step; update.hpp has the rest.
struct Settings {
  float decay;  // 1 - lr * weight_decay
  float lr;
  float towards;  // 1 - beta1
  float beta2;
  float rest2;      // 1 - beta2
  float log_beta1;  // its natural logarithm
  float log_beta2;
  float eps;
  float sign;  // -1: a gradient to climb
  const float* step;
  const float* grad_scale;  // null: none
  const float* found_inf;   // null: none
};

enum Operand { kParam, kGrad, kExpAvg, kExpAvgSq, kOperands };

struct OneCall {
  DType dtype;         // of param and grad
  DType moment_dtype;  // of exp_avg and exp_avg_sq
  RowLayout<kOperands> rows;
  int64_t elements;
  bool is_dense;  // all in one order without gaps
  Settings settings;
};

struct ManyCall {
  DType dtype;
  void* memory;
  int64_t elements;
  int64_t stride;         // of memory, in elements
  const int64_t* pieces;  // [count, kPieceColumns]
  int64_t count;
  int64_t row_stride;  // of pieces
  int64_t column_stride;
  Settings settings;
};
// Where a piece lies in memory, in elements, by operand; and how many it has.
inline constexpr int kPieceElements = kOperands;
inline constexpr int kPieceColumns = kOperands + 1;

// ---- Tables -------------------------------------------------------------------------------------

inline constexpr Parameter kStep = {.name = "step",
                                    .doc = "the number of this step, from 1: f32, of one element"};
inline constexpr Parameter kGradScale = {
    .name = "grad_scale", .optional = true, .doc = "f32, of one element: gradients are divided"};
inline constexpr Parameter kFoundInf = {
    .name = "found_inf", .optional = true, .doc = "f32, of one element: not 0, nothing is written"};

inline constexpr Attribute kAttributesOfAll[] = {
    {.name = "lr", .kind = Value::Kind::kFloat, .standard = 1e-3, .doc = "learning rate"},
    {.name = "beta1",
     .kind = Value::Kind::kFloat,
     .standard = 0.9,
     .doc = "how much of exp_avg stays, from 0 to below 1"},
    {.name = "beta2",
     .kind = Value::Kind::kFloat,
     .standard = 0.999,
     .doc = "how much of exp_avg_sq stays, from 0 to below 1"},
    {.name = "eps", .kind = Value::Kind::kFloat, .standard = 1e-8, .doc = "outside of the root"},
    {.name = "weight_decay",
     .kind = Value::Kind::kFloat,
     .standard = 1e-2,
     .doc = "times lr: what a parameter loses of itself"},
    {.name = "maximize",
     .kind = Value::Kind::kBool,
     .standard = false,
     .doc = "goes the gradient's way, not against it"}};

// What a case has beside the rest; a sum.
enum Has : uint8_t { kWideMoments = 1, kScale = 2, kInf = 4 };
inline constexpr std::string_view kOneExtents[] = {"rows", "columns", "transposed", "has"};
inline constexpr std::string_view kManyExtents[] = {"count", "elements", "has"};

struct Common {
  static constexpr std::string_view kSource =
      "Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, arXiv:1711.05101";
  static constexpr std::string_view kFormula =
      "p = p * (1 - lr * weight_decay) - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps), "
      "m += (1 - beta1) * (g - m), v = beta2 * v + (1 - beta2) * g^2";
  static constexpr DTypes kDTypes = kFloats;
  static constexpr auto& kAttributes = kAttributesOfAll;

  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations ---------------------------------------------------------------------------------

struct AdamW : Common {
  static constexpr std::string_view kName = "adamw";
  static constexpr std::string_view kSummary = "a step of AdamW, in place, of one tensor";
  static constexpr Parameter kParameters[] = {
      {.name = "param",
       .role = Parameter::Role::kInOut,
       .doc = "any shape of rank 0 to 6, f32, f16 or bf16, any strides"},
      {.name = "grad", .doc = "shape and dtype of param"},
      {.name = "exp_avg",
       .role = Parameter::Role::kInOut,
       .doc = "shape of param, its dtype or f32"},
      {.name = "exp_avg_sq",
       .role = Parameter::Role::kInOut,
       .doc = "shape of param, dtype of exp_avg"},
      kStep,
      kGradScale,
      kFoundInf};
  static constexpr std::string_view kTorch = R"(
g = grad if grad_scale is None else grad / grad_scale
g = (-g if maximize else g).to(exp_avg.dtype)
m = exp_avg + (1 - beta1) * (g - exp_avg)
v = beta2 * exp_avg_sq + (1 - beta2) * g * g
root = (v / (1 - beta2 ** step)).sqrt() + eps
p = param * (1 - lr * weight_decay) - lr / (1 - beta1 ** step) * m / root
if found_inf is not None:
    kept = found_inf != 0
    p, m, v = (torch.where(kept, *x) for x in ((param, p), (exp_avg, m), (exp_avg_sq, v)))
return p.to(param.dtype), m, v)";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch",
       "torch._fused_adamw_([param], [grad], [exp_avg], [exp_avg_sq], [], [step], lr=lr, "
       "beta1=beta1, beta2=beta2, weight_decay=weight_decay, eps=eps, amsgrad=False, "
       "maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)"}};
  static constexpr auto& kExtentNames = kOneExtents;
  static constexpr int kOptionalExtents = 2;

  using Call = OneCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // optimizer.cu
};

struct MultiTensorAdamW : Common {
  static constexpr std::string_view kName = "multi_tensor_adamw";
  static constexpr std::string_view kSummary =
      "a step of AdamW of many tensors in one launch, told by a table of where they lie";
  static constexpr Parameter kParameters[] = {
      {.name = "memory",
       .role = Parameter::Role::kInOut,
       .holds_others = true,
       .doc = "[S], f32, f16 or bf16: all tensors lie somewhere in it"},
      {.name = "pieces",
       .doc = "i64 [P, 5]: where a piece's param, grad, exp_avg and exp_avg_sq begin in "
              "memory, and its elements; pieces that are written lie apart"},
      kStep,
      kGradScale,
      kFoundInf};
  static constexpr std::string_view kTorch = R"(
new = memory.clone()
for at_p, at_g, at_m, at_v, n in pieces.tolist():
    param, grad = memory[at_p:at_p + n], memory[at_g:at_g + n]
    exp_avg, exp_avg_sq = memory[at_m:at_m + n], memory[at_v:at_v + n]
    g = grad if grad_scale is None else grad / grad_scale
    g = -g if maximize else g
    m = exp_avg + (1 - beta1) * (g - exp_avg)
    v = beta2 * exp_avg_sq + (1 - beta2) * g * g
    root = (v / (1 - beta2 ** step)).sqrt() + eps
    new[at_p:at_p + n] = param * (1 - lr * weight_decay) - lr / (1 - beta1 ** step) * m / root
    new[at_m:at_m + n] = m
    new[at_v:at_v + n] = v
return new if found_inf is None else torch.where(found_inf != 0, memory, new))";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch",
       "torch._fused_adamw_(*tensors_of(memory, pieces), [], [step] * len(pieces), lr=lr, "
       "beta1=beta1, beta2=beta2, weight_decay=weight_decay, eps=eps, amsgrad=False, "
       "maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)"}};
  static constexpr auto& kExtentNames = kManyExtents;
  static constexpr int kOptionalExtents = 1;

  using Call = ManyCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Cost cost_of_data(const Problem& problem);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static std::span<const Rung* const> by_worth(const Call& call);  // optimizer.cu
};

}  // namespace ws::optimizer
