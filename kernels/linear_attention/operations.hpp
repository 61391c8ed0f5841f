// Attention without a softmax: what a query gathers is a product with a state, a matrix of D x M
// numbers that each step adds to. reference.cpp has how rungs are checked.
//
//   linear_attention            state = exp(log_decay) * state + k v^T, out = scale * q state
//   linear_attention_backward   its gradients
//   delta_rule                  the step first takes off the state what it says of k already
//   delta_rule_backward         its gradients
//
// Tensors are [batch, heads, steps, columns] by strides; several heads may share one of q, k or v.
// The state is f32, whatever the dtype.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/linear_attention/in_torch.hpp"

namespace ws::linear_attention {

// ---- Calls ------------------------------------------------------------------------------------

// Rows of all heads: elements from one batch, head, step and column to the next; `group` heads of
// the call share one of these.
struct Rows {
  void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 1;
  int64_t group = 1;

  template <class T>
  constexpr T* at(int64_t of_batch, int64_t of_head, int64_t of_row) const {
    return static_cast<T*>(data) + of_batch * batch + of_head / group * head + of_row * row;
  }
};

// A number of f32 for each head and step.
struct Numbers {
  float* data = nullptr;  // null: none
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;

  constexpr float* at(int64_t of_batch, int64_t of_head, int64_t of_row) const {
    return data + of_batch * batch + of_head * head + of_row * row;
  }
};

// A matrix of f32 for each head.
struct States {
  float* data = nullptr;  // null: none, zeros
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 1;

  constexpr float* at(int64_t of_batch, int64_t of_head, int64_t of_row, int64_t of_column) const {
    return data + of_batch * batch + of_head * head + of_row * row + of_column * column;
  }
};

// One walk over the steps, which is what rungs compute: the forward is one, the backward three.
//
//   state[t] = exp(log_decay[t]) * state[t - 1] + scale_in * k[t] v[t]^T        [dim, value_dim]
//   out[t] = scale_out * q[t] state[t]
//
// `shifted`, of a walk from the last step to the first: the state is decayed by log_decay[t] for
// t > 0 only, and by log_decay[steps] in the end.
struct Walk {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t steps = 0;
  int64_t dim = 0;
  int64_t value_dim = 0;
  Rows q{}, k{}, v{}, out{};
  Numbers log_decay{};
  Numbers beta{};  // of the delta rule
  States initial{}, final{};
  // Of each step, where there is room for them: the dot of its output and of a row of the inputs'
  // dtype, a part of it for every 64 columns, `dots_block` numbers apart.
  Rows dots_with{};
  Numbers dots{};
  int64_t dots_block = 0;
  float scale_in = 1;
  float scale_out = 1;
  bool shifted = false;

  constexpr int64_t matrices() const { return batch * heads; }
  constexpr int64_t state_elements() const { return matrices() * dim * value_dim; }
};

struct Call {
  DType dtype{};
  Walk walk{};
};

struct BackwardCall {
  DType dtype{};
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t steps = 0;
  int64_t dim = 0;
  int64_t value_dim = 0;
  Rows q{}, k{}, v{}, dout{}, dq{}, dk{}, dv{};
  Numbers log_decay{}, dlog_decay{};
  States initial{}, dfinal{}, dinitial{};
  float scale = 1;
  // Whether there is one: without data, too.
  bool has_decay = false;
  bool has_dfinal = false;

  constexpr int64_t matrices() const { return batch * heads; }
};

// Of the typed calls that have a beta.
struct DeltaCall : Call {};
struct DeltaBackwardCall : BackwardCall {
  Numbers beta{}, dbeta{};
};

// ---- Tables -----------------------------------------------------------------------------------

// What a case has beside q, k and v; a sum.
enum Has : uint8_t {
  kLogDecay = 1,
  kInitialState = 2,
  kFinalState = 4,  // of the backward: its gradient
  kStepsFirst = 8,  // [batch, steps, heads, columns] in memory
};
// Hk: heads of q and k, 0 for H; has: a sum of Has.
inline constexpr std::string_view kExtents[] = {"B", "H", "S", "D", "M", "Hk", "has"};

inline constexpr Attribute kScale = {
    .name = "scale", .kind = Value::Kind::kFloat, .standard = 1.0, .doc = "what times <q, state>"};
inline constexpr Attribute kOutputFinalState = {
    .name = "output_final_state",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "also gives the state after the last step, from which a next call can go on"};
inline constexpr Parameter kLogDecayIn = {
    .name = "log_decay",
    .optional = true,
    .doc = "f32 [B, H, S], at most 0: exp of it times the state before step t; -inf forgets all"};
inline constexpr Parameter kInitialStateIn = {
    .name = "initial_state", .optional = true, .doc = "f32 [B, H, D, M]; 0 where left out"};
inline constexpr Parameter kOut = {
    .name = "out",
    .role = Parameter::Role::kOut,
    .doc = "[B, H, S, M], dtype of q",
    .shape = "(q.shape[0], max(q.shape[1], k.shape[1], v.shape[1]), q.shape[2], v.shape[3])"};
inline constexpr Parameter kFinalStateOut = {
    .name = "final_state",
    .role = Parameter::Role::kOut,
    .optional = true,
    .doc = "f32 [B, H, D, M]; where output_final_state",
    .shape =
        "(q.shape[0], max(q.shape[1], k.shape[1], v.shape[1]), q.shape[3], v.shape[3]) "
        "if output_final_state else None",
    .torch_dtype = "torch.float32"};
inline constexpr Parameter kForwardQueryIn = {.name = "q", .doc = "the forward's, [B, H, S, D]"};
inline constexpr Parameter kForwardKeyIn = {.name = "k", .doc = "the forward's, [B, H, S, D]"};
inline constexpr Parameter kForwardValueIn = {
    .name = "v", .doc = "the forward's, [B, H, S, M]: as many heads of each"};
inline constexpr Parameter kOutGradientIn = {.name = "dout",
                                             .doc = "gradient of out, [B, H, S, M], dtype of q"};
inline constexpr Parameter kFinalStateGradientIn = {
    .name = "dfinal_state",
    .optional = true,
    .doc = "gradient of final_state, f32 [B, H, D, M]; 0 where left out"};
inline constexpr Parameter kQueryGradientOut = {
    .name = "dq", .role = Parameter::Role::kOut, .doc = "shape and dtype of q"};
inline constexpr Parameter kKeyGradientOut = {
    .name = "dk", .role = Parameter::Role::kOut, .doc = "shape and dtype of k", .shape = "k.shape"};
inline constexpr Parameter kValueGradientOut = {
    .name = "dv", .role = Parameter::Role::kOut, .doc = "shape and dtype of v", .shape = "v.shape"};
inline constexpr Parameter kDecayGradientOut = {
    .name = "dlog_decay",
    .role = Parameter::Role::kOut,
    .optional = true,
    .doc = "f32 [B, H, S]; where there is log_decay",
    .shape = "None if log_decay is None else log_decay.shape",
    .torch_dtype = "torch.float32"};
inline constexpr Parameter kInitialStateGradientOut = {
    .name = "dinitial_state",
    .role = Parameter::Role::kOut,
    .optional = true,
    .doc = "f32 [B, H, D, M]; where there is initial_state",
    .shape = "None if initial_state is None else initial_state.shape",
    .torch_dtype = "torch.float32"};

struct Common {
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::span<const std::string_view> kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 2;
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

// ---- Operations -------------------------------------------------------------------------------

struct LinearAttention : Common {
  static constexpr std::string_view kName = "linear_attention";
  static constexpr std::string_view kSummary =
      "causal attention without a softmax: a query times a state, which decays by a gate";
  static constexpr std::string_view kSource =
      "Katharopoulos et al., Transformers are RNNs, 2020, arXiv:2006.16236; Dao and Gu, "
      "Transformers are SSMs, 2024, arXiv:2405.21060";
  static constexpr std::string_view kFormula =
      "state[t] = exp(log_decay[t]) * state[t - 1] + k[t] v[t]^T, out[t] = scale * q[t] state[t]";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "[B, Hq, S, D], any strides; Hq, Hk, Hv divide H, the most of them"},
      {.name = "k", .doc = "[B, Hk, S, D], dtype of q"},
      {.name = "v", .doc = "[B, Hv, S, M], dtype of q"},
      kLogDecayIn,
      kInitialStateIn,
      kOut,
      kFinalStateOut};
  static constexpr Attribute kAttributes[] = {kScale, kOutputFinalState};
  static constexpr std::string_view kTorch = kForwardInTorch;
  static constexpr std::string_view kGradient = kGradientInTorch;

  using Call = linear_attention::Call;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct LinearAttentionBackward : Common {
  static constexpr std::string_view kName = "linear_attention_backward";
  static constexpr std::string_view kSummary = "gradients of linear_attention, from its inputs";
  static constexpr std::string_view kSource = LinearAttention::kSource;
  static constexpr std::string_view kFormula =
      "dq[t] = scale * state[t] dout[t], dk[t] = dstate[t] v[t], dv[t] = dstate[t]^T k[t], "
      "dstate[t] = exp(log_decay[t + 1]) * dstate[t + 1] + scale * q[t] dout[t]^T";
  static constexpr Parameter kParameters[] = {
      kForwardQueryIn, kForwardKeyIn,     kForwardValueIn,       kOutGradientIn,
      kLogDecayIn,     kInitialStateIn,   kFinalStateGradientIn, kQueryGradientOut,
      kKeyGradientOut, kValueGradientOut, kDecayGradientOut,     kInitialStateGradientOut};
  static constexpr Attribute kAttributes[] = {kScale};
  static constexpr std::string_view kTorch = kBackwardInTorch;

  using Call = BackwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct DeltaRule : Common {
  static constexpr std::string_view kName = "delta_rule";
  static constexpr std::string_view kSummary =
      "linear attention whose step corrects what the state says of its key (DeltaNet, gated)";
  static constexpr std::string_view kSource =
      "Yang et al., Parallelizing Linear Transformers with the Delta Rule over Sequence Length, "
      "2024, arXiv:2406.06484; Yang et al., Gated Delta Networks, 2024, arXiv:2412.06464";
  static constexpr std::string_view kFormula =
      "state[t] = decay[t] * state[t - 1] + beta[t] * k[t] (v[t] - decay[t] * state[t - 1]^T "
      "k[t])^T, decay = exp(log_decay), out[t] = scale * q[t] state[t]";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "[B, Hq, S, D], any strides; Hq, Hk, Hv divide H, the most of them"},
      {.name = "k", .doc = "[B, Hk, S, D], dtype of q; rows of a norm of at most 1"},
      {.name = "v", .doc = "[B, Hv, S, M], dtype of q"},
      {.name = "beta", .doc = "f32 [B, H, S], from 0 to 1: how much of a step counts"},
      kLogDecayIn,
      kInitialStateIn,
      kOut,
      kFinalStateOut};
  static constexpr Attribute kAttributes[] = {kScale, kOutputFinalState};
  static constexpr std::string_view kTorch = kDeltaInTorch;
  static constexpr std::string_view kGradient = kDeltaGradientInTorch;

  using Call = DeltaCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct DeltaRuleBackward : Common {
  static constexpr std::string_view kName = "delta_rule_backward";
  static constexpr std::string_view kSummary = "gradients of delta_rule, from its inputs";
  static constexpr std::string_view kSource = DeltaRule::kSource;
  static constexpr std::string_view kFormula =
      "error[t] = v[t] - decay[t] * state[t - 1]^T k[t], dv[t] = beta[t] * dstate[t]^T k[t], "
      "dq[t] = scale * state[t] dout[t], "
      "dk[t] = beta[t] * dstate[t] error[t] - decay[t] * state[t - 1] dv[t], "
      "dbeta[t] = <error[t], dstate[t]^T k[t]>, dstate[t] = decay[t + 1] * (dstate[t + 1] - "
      "k[t + 1] dv[t + 1]^T) + scale * q[t] dout[t]^T";
  static constexpr Parameter kParameters[] = {
      kForwardQueryIn,
      kForwardKeyIn,
      kForwardValueIn,
      {.name = "beta", .doc = "the forward's, f32 [B, H, S]"},
      kOutGradientIn,
      kLogDecayIn,
      kInitialStateIn,
      kFinalStateGradientIn,
      kQueryGradientOut,
      kKeyGradientOut,
      kValueGradientOut,
      {.name = "dbeta",
       .role = Parameter::Role::kOut,
       .doc = "f32 [B, H, S]",
       .shape = "beta.shape",
       .torch_dtype = "torch.float32"},
      kDecayGradientOut,
      kInitialStateGradientOut};
  static constexpr Attribute kAttributes[] = {kScale};
  static constexpr std::string_view kTorch = kDeltaBackwardInTorch;

  using Call = DeltaBackwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::linear_attention
