// attention_backward: from what the forward kept, a logarithm a query, to the gradients of q, k and
// v.
//
// With P[i, j] = exp(score[i, j] - lse[i]), the weights of the forward, and what went into out
//
//   dv[j] = sum over i of P[i, j] dout[i]
//   dscore[i, j] = P[i, j] (<dout[i], v[j]> - delta[i]),  delta[i] = <dout[i], out[i]> - dlse[i]
//   dq[i] = scale * sum over j of dscore[i, j] k[j],      dk[j] the same over i with q[i]
//
// and under a softcap dscore times 1 - tanh^2. Sinks are in lse, and nothing else asks for them.
// Heads of queries that share a head of keys add up in its gradients.
#pragma once

#include "kernels/attention/operations.hpp"

namespace ws::attention {

// out, the forward's, and lse are read.
struct BackwardCall : Call {
  Heads dout;
  Heads dlse;  // f32, no columns; data is null where there is none
  Heads dq, dk, dv;
  Heads dscores;  // f32; data is null where nobody asks
  bool deterministic = false;
};

// Of packed sequences: `queries` and `keys` are all that there are, dscores nobody asks for.
struct VarlenBackwardCall : BackwardCall, Packing {};

// Those that rows of a call's tensors have in all.
constexpr int64_t batches_of(const BackwardCall& call) { return call.batch; }
constexpr int64_t batches_of(const VarlenBackwardCall& /*call*/) { return 1; }

inline constexpr Attribute kDeterministic{
    .name = "deterministic",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "chooses rungs that give the same bits every time"};

struct AttentionBackward {
  static constexpr std::string_view kName = "attention_backward";
  static constexpr std::string_view kSummary = "gradients of attention, from its out and lse";
  static constexpr std::string_view kSource =
      "Dao et al., FlashAttention, 2022, arXiv:2205.14135, B.4; Dao, FlashAttention-2, 2023, "
      "arXiv:2307.08691";
  static constexpr std::string_view kFormula =
      "dv[j] = sum over i of p[i, j] * dout[i], dq[i] = scale * sum over j of ds[i, j] * k[j], "
      "dk[j] = scale * sum over i of ds[i, j] * q[i], ds = p * (<dout[i], v[j]> - <dout[i], "
      "o[i]> + dlse[i]), p = exp(score - lse[i])";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "the forward's, [B, H, Sq, D], any strides"},
      {.name = "k", .doc = "the forward's, [B, Hk, Sk, D]"},
      {.name = "v", .doc = "the forward's, [B, Hk, Sk, Dv]"},
      {.name = "dout", .doc = "gradient of out, [B, H, Sq, Dv], dtype of q"},
      {.name = "o", .doc = "out of the forward, [B, H, Sq, Dv], dtype of q"},
      {.name = "lse", .doc = "lse of the forward, f32 [B, H, Sq]"},
      {.name = "bias", .optional = true, .doc = "the forward's"},
      {.name = "alibi_slopes", .optional = true, .doc = "the forward's"},
      {.name = "dlse",
       .optional = true,
       .doc = "gradient of lse, f32 [B, H, Sq]; 0 where left out"},
      {.name = "dq",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of q",
       .shape = "laid_as(q, q.shape)"},
      {.name = "dk",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of k",
       .shape = "laid_as(k, k.shape)"},
      {.name = "dv",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of v",
       .shape = "laid_as(v, v.shape)"},
      {.name = "dscores",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "f32 [B, H, Sq, Sk], gradient of the scores as the softmax has them, 0 where a query "
              "sees nothing: that of a bias; with score_gradient",
       .shape = "(*q.shape[:3], k.shape[2]) if score_gradient else None",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {kCausal,
                                              kWindowLeft,
                                              kWindowRight,
                                              kScale,
                                              kSoftcap,
                                              {.name = "score_gradient",
                                               .kind = Value::Kind::kBool,
                                               .standard = false,
                                               .doc = "also gives dscores"},
                                              kDeterministic};
  // has: a sum of BackwardHas.
  enum Has : uint8_t {
    kLaidRowsFirst = 1,  // as of the forward
    kWithBias = 2,       // dense, of the dtype of q
    kWithBiasOfKeys = 4,
    kWithAlibi = 8,
    kWithDlse = 16,
  };
  static constexpr std::string_view kExtentNames[] = {"B", "H", "Sq", "Sk", "D", "Hk", "Dv", "has"};
  static constexpr int kOptionalExtents = 3;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kCallInTorch = R"(
dq, dk, dv, ds = attend_backward(q, k, v, dout, o, lse, bias, alibi_slopes, dlse)
return dq, dk, dv, ds if score_gradient else None
)";
  static constexpr std::string_view kTorch =
      kJoined<kAttendInTorch, kAttendBackwardInTorch, kCallInTorch>;
  static constexpr PythonPeer kPythonPeers[] = {{"cudnn", kCudnnBackward},
                                                {"torch_flash", kFlashBackward},
                                                {"torch_efficient", kEfficientBackward},
                                                {"fa4", kFlash4Backward}};

  using Call = BackwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

struct AttentionVarlenBackward {
  static constexpr std::string_view kName = "attention_varlen_backward";
  static constexpr std::string_view kSummary =
      "gradients of attention_varlen without pages, from its out and lse";
  static constexpr std::string_view kSource = AttentionBackward::kSource;
  static constexpr std::string_view kFormula =
      "attention_backward's, i and j of one sequence; rows of no sequence: 0";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "the forward's, [Tq, H, D], any strides"},
      {.name = "k", .doc = "the forward's, [Tk, Hk, D]"},
      {.name = "v", .doc = "the forward's, [Tk, Hk, Dv]"},
      {.name = "cu_seqlens_q", .doc = "the forward's, i32 [B + 1]"},
      {.name = "cu_seqlens_k", .doc = "the forward's, i32 [B + 1]"},
      {.name = "dout", .doc = "gradient of out, [Tq, H, Dv], dtype of q"},
      {.name = "o", .doc = "out of the forward, [Tq, H, Dv], dtype of q"},
      {.name = "lse", .doc = "lse of the forward, f32 [H, Tq]"},
      {.name = "seqused_k", .optional = true, .doc = "the forward's, i32 [B]"},
      {.name = "alibi_slopes", .optional = true, .doc = "the forward's, f32 [H] or [B, H]"},
      {.name = "dlse", .optional = true, .doc = "gradient of lse, f32 [H, Tq]; 0 where left out"},
      {.name = "dq",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of q, 0 in rows of no sequence, or of one that is wrong",
       .shape = "q.shape"},
      {.name = "dk",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of k, 0 also in keys that do not count",
       .shape = "k.shape"},
      {.name = "dv",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of v, the same",
       .shape = "v.shape"},
  };
  static constexpr Attribute kAttributes[] = {kCausal, kWindowLeft, kWindowRight,
                                              kScale,  kSoftcap,    kDeterministic};
  // has: a sum of these.
  enum Has : uint8_t { kWithUsed = 1, kWithSlopes = 2, kWithGradientOfLse = 4 };
  static constexpr std::string_view kExtentNames[] = {"B", "H", "Tq", "Tk", "D", "Hk", "Dv", "has"};
  static constexpr int kOptionalExtents = 3;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch =
      kJoined<kAttendInTorch, kAttendBackwardInTorch, kAttendPackedBackwardInTorch>;
  static constexpr PythonPeer kPythonPeers[] = {{"torch_flash", kPackedFlashBackward},
                                                {"fa4", kPackedFlash4Backward}};

  using Call = VarlenBackwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Cost cost_of_data(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::attention
