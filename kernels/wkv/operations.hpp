// RWKV's wkv: of each channel a mean of the values so far, weighed by the exponentials of their
// keys, which decay from step to step.
//
//   out[t] = (n + exp(u + k[t]) * v[t]) / (m + exp(u + k[t]))
//   n = exp(w) * n + exp(k[t]) * v[t]        m = exp(w) * m + exp(k[t])
//
// n and m are kept as p * exp(o) and q * exp(o): o is the largest exponent in them, so that neither
// overflows, whatever the keys are. w is the logarithm of the decay, below 0: a model that learns
// its negative logarithm gives -exp(that), as RWKV-4 does.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/wkv/in_torch.hpp"
#include "warpsmith/device.hpp"

namespace ws::wkv {

// ---- Calls ------------------------------------------------------------------------------------

// A tensor: elements from one batch, step (of states: p, q or o) and channel to the next.
struct Operand {
  void* data = nullptr;
  bool exists = false;
  int64_t batch = 0;
  int64_t step = 0;
  int64_t channel = 0;

  template <class T>
  __host__ __device__ __forceinline__ T* at(int64_t of_batch, int64_t of_channel) const {
    return static_cast<T*>(data) + of_batch * batch + of_channel * channel;
  }
};

struct Inputs {
  DType dtype{};
  int64_t batch = 0;
  int64_t length = 0;
  int64_t channels = 0;
  Operand w, u, k, v, state;

  __host__ __device__ __forceinline__ int64_t lines() const { return batch * channels; }
};
struct ForwardCall : Inputs {
  Operand out, last_state;
};
struct BackwardCall : Inputs {
  Operand g, g_last_state, gw, gu, gk, gv, gstate;
};

// ---- Tables -----------------------------------------------------------------------------------

// The extent "has": a sum.
enum Has : uint8_t {
  kHasState = 1,
  kGaps = 2,         // channels lie two elements apart
  kStepsInside = 4,  // steps lie side by side, channels do not
  kHasLast = 8,      // of the backward: the gradient of last_state
};

inline constexpr std::string_view kExtents[] = {"B", "T", "C", "has"};

inline constexpr Parameter kWIn = {.name = "w",
                                   .doc = "f32 [C], logarithm of the decay of a step: below 0"};
inline constexpr Parameter kUIn = {.name = "u",
                                   .doc = "f32 [C], added to the key of the step itself"};
inline constexpr Parameter kVIn = {.name = "v", .doc = "shape and dtype of k"};
inline constexpr Parameter kStateIn = {
    .name = "state",
    .optional = true,
    .doc = "f32 [B, 3, C]: p, q, o before the first step, n = p * exp(o) and m = q * exp(o)"};

struct Common {
  static constexpr std::string_view kSource =
      "Peng et al., RWKV: Reinventing RNNs for the Transformer Era, 2023, arXiv:2305.13048";
  static constexpr std::span<const std::string_view> kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

struct Wkv : Common {
  static constexpr std::string_view kName = "wkv";
  static constexpr std::string_view kSummary =
      "RWKV-4's mean of the values so far, weighed by keys that decay";
  static constexpr std::string_view kFormula =
      "out = (n + exp(u + k) * v) / (m + exp(u + k)); n, m decay by exp(w)";
  static constexpr Parameter kParameters[] = {
      {.name = "k", .doc = "[B, T, C], f32, f16 or bf16: logarithms of weights"},
      kVIn,
      kWIn,
      kUIn,
      kStateIn,
      {.name = "out", .role = Parameter::Role::kOut, .doc = "shape and dtype of k"},
      {.name = "last_state",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "f32 [B, 3, C]: the state after the last step; where return_state",
       .shape = "(k.shape[0], 3, k.shape[2]) if return_state else None",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {{.name = "return_state",
                                               .kind = Value::Kind::kBool,
                                               .standard = false,
                                               .doc = "whether last_state is written"}};
  static constexpr std::string_view kTorch = kForwardInTorch;
  static constexpr std::string_view kGradient = kGradientInTorch;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorch}};

  using Call = ForwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // wkv.cu
};

struct WkvBackward : Common {
  static constexpr std::string_view kName = "wkv_backward";
  static constexpr std::string_view kSummary = "gradient of wkv";
  static constexpr std::string_view kFormula =
      "gk = exp(k) * (v * P + Q) + own, gv = exp(k) * P + own; P, Q: what later steps make of n, m";
  static constexpr Parameter kParameters[] = {
      {.name = "k", .doc = "the forward's, [B, T, C], f32, f16 or bf16"},
      kVIn,
      kWIn,
      kUIn,
      {.name = "g", .doc = "gradient of out, shape and dtype of k"},
      kStateIn,
      {.name = "g_last_state",
       .optional = true,
       .doc = "gradient of last_state, f32 [B, 3, C]; 0 where left out"},
      {.name = "gk", .role = Parameter::Role::kOut, .doc = "shape and dtype of k"},
      {.name = "gv", .role = Parameter::Role::kOut, .doc = "shape and dtype of k"},
      {.name = "gw",
       .role = Parameter::Role::kOut,
       .doc = "f32 [C], gradient of w, the logarithm",
       .shape = "w.shape",
       .torch_dtype = "torch.float32"},
      {.name = "gu",
       .role = Parameter::Role::kOut,
       .doc = "f32 [C]",
       .shape = "w.shape",
       .torch_dtype = "torch.float32"},
      {.name = "gstate",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "gradient of state, f32 [B, 3, C]; where there is one",
       .shape = "None if state is None else state.shape",
       .torch_dtype = "torch.float32"},
  };
  static constexpr std::string_view kTorch = kBackwardInTorch;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorch}};

  using Call = BackwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::wkv
