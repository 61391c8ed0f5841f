// ring_attention_step: one step of attention over keys that lie on several GPUs. Each of them has
// queries of its own; keys and values come by in parts, and what the queries have gathered of those
// that came before is merged with what they gather of this one.
//
// The state is attention over the keys met so far, `out` and `lse`, both f32. lse of -infinity says
// that there was none yet: out is not read then, so a first step needs no zeros.
//
// A part stands to the queries as the keys of attention do, the last query over the last key. Every
// band of a larger causal or windowed problem becomes one by leaving out the queries that see
// nothing of the part and the keys that nobody sees: the last query that is left sees the last key
// that is left.
#pragma once

#include "kernels/attention/operations.hpp"

namespace ws::attention {

// out is f32, and read as lse is.
struct RingCall : Call {};

constexpr DType out_dtype_of(const RingCall& /*call*/) { return DType::kF32; }

inline constexpr std::string_view kRingStepInTorch = R"(
softcap = 0
sinks = None
part, own = attend(wide(q), k, v, None, None)
whole = torch.logaddexp(lse, own)
share = lambda x, of: torch.where(of[..., None] == -math.inf, 0, x * torch.exp(of - whole)[..., None])
return share(out, lse) + share(part, own), whole
)";

struct RingAttentionStep {
  static constexpr std::string_view kName = "ring_attention_step";
  static constexpr std::string_view kSummary =
      "attention over one part more of the keys, merged in f32 with that over those before";
  static constexpr std::string_view kSource =
      "Liu et al., Ring Attention with Blockwise Transformers for Near-Infinite Context, 2023, "
      "arXiv:2310.01889";
  static constexpr std::string_view kFormula =
      "lse' = log(exp(lse) + sum over j of exp(s[j])), out' = exp(lse - lse') * out + "
      "sum over j of exp(s[j] - lse') * v[j], s[j] = scale * <q, k[j]>";
  static constexpr Parameter kParameters[] = {
      {.name = "q", .doc = "[B, H, Sq, D], f32, f16 or bf16; any strides"},
      {.name = "k", .doc = "[B, Hk, Sk, D], dtype of q, a part of the keys; Hk divides H"},
      {.name = "v", .doc = "[B, Hk, Sk, Dv], dtype of q"},
      {.name = "out",
       .role = Parameter::Role::kInOut,
       .doc = "f32 [B, H, Sq, Dv], attention over the keys met so far; any strides"},
      {.name = "lse",
       .role = Parameter::Role::kInOut,
       .doc =
           "f32 [B, H, Sq], logarithm of the sum of their exp(scores); -infinity where there was "
           "none, and out is not read"},
  };
  static constexpr Attribute kAttributes[] = {kCausal, kWindowLeft, kWindowRight, kScale};
  // Hk, Dv: 0 for those of q; has: 0 or Has::kRowsBeforeHeads.
  static constexpr std::string_view kExtentNames[] = {"B", "H", "Sq", "Sk", "D", "Hk", "Dv", "has"};
  static constexpr int kOptionalExtents = 3;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = kJoined<kAttendInTorch, kRingStepInTorch>;

  using Call = RingCall;
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

}  // namespace ws::attention
