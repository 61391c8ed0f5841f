// The selective scan of Mamba: a linear recurrence for each channel and state, whose decay and
// inputs depend on the step.
//
//   s       = softplus(delta[t] + delta_bias), or delta[t] + delta_bias    of a channel
//   x_n     = exp(s * a[n]) * x_n + s * b[n][t] * u[t]                     for each of its states
//   y[t]    = sum over n of c[n][t] * x_n + d * u[t]
//   out[t]  = y[t] * silu(z[t])
//
// Channels of a group share b and c.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/selective_scan/in_torch.hpp"
#include "warpsmith/device.hpp"

namespace ws::selective_scan {

// ---- Calls ------------------------------------------------------------------------------------

// A tensor: elements from one batch, channel (of b and c: group), state and step to the next.
struct Operand {
  void* data = nullptr;
  bool exists = false;
  int64_t batch = 0;
  int64_t channel = 0;
  int64_t state = 0;
  int64_t step = 0;

  template <class T>
  __host__ __device__ __forceinline__ T* at(int64_t of_batch, int64_t of_channel) const {
    return static_cast<T*>(data) + of_batch * batch + of_channel * channel;
  }
};

// What forward and backward read.
struct Inputs {
  DType dtype{};
  int64_t batch = 0;
  int64_t dim = 0;
  int64_t length = 0;
  int64_t states = 0;
  int64_t groups = 1;
  bool softplus = false;
  Operand u, delta, a, b, c, d, z, delta_bias;

  __host__ __device__ __forceinline__ int64_t rows() const { return batch * dim; }
  __host__ __device__ __forceinline__ int64_t channels_of_group() const { return dim / groups; }
};
struct ForwardCall : Inputs {
  Operand initial_state, out, last_state;
};

struct BackwardCall : Inputs {
  Operand g, initial_state, dlast_state, du, ddelta, da, db, dc, dz, dinitial_state;
  Operand dchannel;  // of d and delta_bias: a state is one of its two rows
};

inline constexpr int64_t kMostStates = 256;

// ---- Tables -----------------------------------------------------------------------------------

// The extent "has": what a case has beside u, delta, a, b and c, and how it lies; a sum.
enum Has : uint8_t {
  kHasZ = 1,
  kHasD = 2,
  kHasBias = 4,
  kHasInitial = 8,     // of the backward: states
  kGaps = 16,          // steps lie two elements apart
  kStepsOutside = 32,  // channels lie side by side, steps do not
};

inline constexpr std::string_view kExtents[] = {"batch", "dim", "L", "N", "groups", "has"};

inline constexpr Parameter kUIn = {.name = "u", .doc = "[batch, dim, L], f32, f16 or bf16"};
inline constexpr Parameter kDeltaIn = {.name = "delta", .doc = "shape and dtype of u"};
inline constexpr Parameter kAIn = {.name = "a", .doc = "f32 [dim, N], N up to 256: below 0"};
inline constexpr Parameter kBIn = {
    .name = "b", .doc = "[batch, N, L] or [batch, groups, N, L], dtype of u; groups divide dim"};
inline constexpr Parameter kCIn = {.name = "c", .doc = "shape and dtype of b"};
inline constexpr Parameter kDIn = {.name = "d", .optional = true, .doc = "f32 [dim]"};
inline constexpr Parameter kZIn = {
    .name = "z", .optional = true, .doc = "shape and dtype of u: out is y * silu(z)"};
inline constexpr Parameter kBiasIn = {
    .name = "delta_bias", .optional = true, .doc = "f32 [dim], added to delta"};
inline constexpr Attribute kSoftplusOfDelta = {
    .name = "delta_softplus",
    .kind = Value::Kind::kBool,
    .standard = false,
    .doc = "softplus(delta + delta_bias) is the step's size"};

// What both directions have in common.
struct Common {
  static constexpr std::string_view kSource =
      "Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023, "
      "arXiv:2312.00752";
  static constexpr std::span<const std::string_view> kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 2;
  static constexpr DTypes kDTypes = kFloats;

  static void make(const Case& chosen, DType dtype, Problem& problem);
  static void fill(const Problem& problem, int index, uint64_t seed);
};

struct SelectiveScan : Common {
  static constexpr std::string_view kName = "selective_scan";
  static constexpr std::string_view kSummary =
      "Mamba's recurrence: states that decay and take in as each step says";
  static constexpr std::string_view kFormula =
      "x = exp(delta * a) * x + delta * b * u; out = (<c, x> + d * u) * silu(z)";
  static constexpr Parameter kParameters[] = {
      kUIn,
      kDeltaIn,
      kAIn,
      kBIn,
      kCIn,
      kDIn,
      kZIn,
      kBiasIn,
      {.name = "initial_state",
       .optional = true,
       .doc = "f32 [batch, dim, N]: x before the first step; 0 where left out"},
      {.name = "out", .role = Parameter::Role::kOut, .doc = "shape and dtype of u"},
      {.name = "last_state",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "f32 [batch, dim, N]: x after the last step; where return_last_state",
       .shape = "(u.shape[0], u.shape[1], a.shape[1]) if return_last_state else None",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {kSoftplusOfDelta,
                                              {.name = "return_last_state",
                                               .kind = Value::Kind::kBool,
                                               .standard = false,
                                               .doc = "whether last_state is written"}};
  static constexpr std::string_view kTorch = kForwardInTorch;
  static constexpr std::string_view kGradient = kGradientInTorch;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorch}, {"mamba_ssm", kMamba}};

  using Call = ForwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);  // selective_scan.cu
};

struct SelectiveScanBackward : Common {
  static constexpr std::string_view kName = "selective_scan_backward";
  static constexpr std::string_view kSummary = "gradient of selective_scan, also of its states";
  static constexpr std::string_view kFormula =
      "h = c * dy + exp(delta * a)' * h'; du = delta * <b, h> + d * dy, db = h * delta * u, ...";
  static constexpr Parameter kParameters[] = {
      kUIn,
      kDeltaIn,
      kAIn,
      kBIn,
      kCIn,
      {.name = "g", .doc = "gradient of out, shape and dtype of u"},
      kDIn,
      kZIn,
      kBiasIn,
      {.name = "states",
       .optional = true,
       .doc =
           "f32 [2, batch, dim, N]: initial_state, then the gradient of last_state; 0 where left "
           "out"},
      {.name = "du", .role = Parameter::Role::kOut, .doc = "shape and dtype of u"},
      {.name = "ddelta", .role = Parameter::Role::kOut, .doc = "shape and dtype of u"},
      {.name = "dgroup",
       .role = Parameter::Role::kOut,
       .doc = "[2, *b.shape], dtype of b, gradients of b and of c: of all channels of a group",
       .shape = "(2, *b.shape)"},
      {.name = "dchannel",
       .role = Parameter::Role::kOut,
       .doc = "f32 [N + 2, dim], gradients of a, of d and of delta_bias, as if a 0 stood for what "
              "is left out",
       .shape = "(a.shape[1] + 2, a.shape[0])",
       .torch_dtype = "torch.float32"},
      {.name = "dz",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "shape and dtype of z; where there is one",
       .shape = "None if z is None else z.shape"},
      {.name = "dinitial_state",
       .role = Parameter::Role::kOut,
       .optional = true,
       .doc = "f32 [batch, dim, N], gradient of initial_state; where there are states",
       .shape = "None if states is None else states.shape[1:]",
       .torch_dtype = "torch.float32"},
  };
  static constexpr Attribute kAttributes[] = {kSoftplusOfDelta};
  static constexpr std::string_view kTorch = kBackwardInTorch;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorch}};

  using Call = BackwardCall;
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static std::span<const Rung* const> by_worth(const Call& call);
};

}  // namespace ws::selective_scan
