// Batch, group and instance norm and their gradients: what each takes and gives. reference.cpp has
// how they are checked.
//
//   y = (x - mean) * rstd * weight + bias,   rstd = 1 / sqrt(variance + eps)
//
// where mean and variance are those of the set of numbers that x lies in: all of a channel
// (batch_norm), or some channels of one sample (group_norm; instance_norm is a group a channel).
// weight and bias have an element a channel.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/batch_norm/in_torch.hpp"
#include "warpsmith/device.hpp"
#include "warpsmith/thread/divide.hpp"

namespace ws::batch_norm {

// ---- Calls ------------------------------------------------------------------------------------

// Numbers of channels or of sets, in a dtype of their own: number s of sample i is at
// data + i * sample + s * stride.
struct Values {
  void* data = nullptr;
  int64_t sample = 0;
  int64_t stride = 1;
  DType dtype = DType::kF32;
  bool exists = false;

  Values() = default;
  explicit Values(const Tensor& tensor)
      : data(tensor.data), dtype(tensor.dtype), exists(tensor.exists()) {
    if (!exists) return;
    stride = tensor.stride(tensor.rank - 1);
    if (tensor.rank == 2) sample = tensor.stride(0);
  }
};

enum ForwardOperand { kX, kY };
enum BackwardOperand { kGrad, kInput, kDx, kMostOperands };

// Where the sets of a call's tensors lie. Set s belongs to sample s / per, of which it is number
// s % per (batch_norm has one sample, so to speak, and per channels). Its elements lie along axes,
// the one with the smallest steps last; neighbours that all operands walk through evenly are one.
struct Layout {
  static constexpr int kMostAxes = 5;

  int64_t sets = 1;
  int64_t per = 1;
  int64_t count = 1;  // elements of a set
  int64_t width = 1;  // channels of a set: element (.., c, ..) has parameter s % per * width + c
  int operands = 0;
  int axes = 0;
  int channel_axis = -1;  // along which they lie; -1: there is one
  std::array<int64_t, kMostAxes> extents{};
  std::array<std::array<int64_t, kMostAxes>, kMostOperands> strides{};
  std::array<int64_t, kMostOperands> sample{};  // from sample to sample, in elements
  std::array<int64_t, kMostOperands> set{};     // from set to set of a sample
  std::array<void*, kMostOperands> data{};

  int64_t channels() const { return per * width; }
  template <class T>
  T* as(int k) const {
    return static_cast<T*>(data[static_cast<size_t>(k)]);
  }
  __host__ __device__ __forceinline__ int64_t start(int k, int64_t s) const {
    return s / per * sample[k] + s % per * set[k];
  }
  // Of element e of a set from its start; `channel` is the element's in its set.
  __host__ __device__ __forceinline__ int64_t offset(int k, int64_t e) const {
    int64_t offset = 0;
    for (int d = axes - 1; d >= 0; --d) {
      offset += e % extents[d] * strides[k][d];
      e /= extents[d];
    }
    return offset;
  }
  __host__ __device__ __forceinline__ int64_t channel(int64_t e) const {
    int64_t channel = 0;
    for (int d = axes - 1; d >= 0; --d) {
      if (d == channel_axis) channel = e % extents[d];
      e /= extents[d];
    }
    return channel;
  }
};

struct ForwardCall {
  DType dtype;
  Layout layout;
  Values weight;  // both of dtype or of f32
  Values bias;
  Values mean;  // outputs, f32, a number a set
  Values rstd;
  Values running_mean;  // of training written too, of inference what x is normalised with
  Values running_var;
  bool given;  // inference: nothing is to be found out
  float momentum;
  float eps;
};

struct BackwardCall {
  DType dtype;
  Layout layout;
  Layout rows;  // the same tensors, a set for each channel of each sample
  Values weight;
  Values mean;
  Values rstd;
  Values dweight;
  Values dbias;
  bool training;  // else mean and rstd did not depend on x
  bool groups;    // of each sample; else a set is a channel of all
};

// ---- Tables -----------------------------------------------------------------------------------

inline constexpr std::string_view kExtents[] = {"batch", "channels", "spatial", "layout", "has"};
// The extent "layout": x is [batch, channels, spatial], contiguous or ...
enum Laid : int64_t {
  kContiguous,
  kSideBySide,  // channels, as in NHWC
  kMatrix,      // [batch * spatial, channels]
  kImages,      // [batch, channels, 2, spatial / 2]
  kGaps,        // every second element of memory, and of parameters
  kOneSample,   // channels before batch in memory
  kWideRows,    // kMatrix, with 16 elements between its rows
  kWideSides,   // kSideBySide, the same
};
// The extent "has": parameters of x's dtype, or ...
enum Has : int64_t { kBoth, kNeither, kF32, kWeightOnly, kBiasOnly };

inline constexpr Attribute kEps = {.name = "eps",
                                   .kind = Value::Kind::kFloat,
                                   .standard = 1e-5,
                                   .doc = "added to the variance, as torch has it"};
inline constexpr Attribute kGroups = {.name = "groups",
                                      .kind = Value::Kind::kInt,
                                      .doc = "groups of neighbouring channels, of a size"};
inline constexpr Parameter kXIn = {.name = "x",
                                   .doc = "[N, C, ...] of 2 to 5 dimensions, f32, f16 or bf16"};
inline constexpr Parameter kWeightIn = {
    .name = "weight", .optional = true, .doc = "[C], dtype of x or f32; 1 where left out"};
inline constexpr Parameter kBiasIn = {
    .name = "bias", .optional = true, .doc = "[C], dtype of x or f32; 0 where left out"};
inline constexpr Parameter kYOut = {
    .name = "y", .role = Parameter::Role::kOut, .doc = "shape and dtype of x"};
inline constexpr Parameter kMeanOut = {.name = "mean",
                                       .role = Parameter::Role::kOut,
                                       .doc = "of each channel, f32 [C]",
                                       .shape = "x.shape[1:2]",
                                       .torch_dtype = "torch.float32"};
inline constexpr Parameter kRstdOut = {.name = "rstd",
                                       .role = Parameter::Role::kOut,
                                       .doc = "1 / standard deviation of each channel, f32 [C]",
                                       .shape = "x.shape[1:2]",
                                       .torch_dtype = "torch.float32"};
inline constexpr Parameter kGradIn = {.name = "grad",
                                      .doc = "gradient of y, [N, C, ...], f32, f16 or bf16"};
inline constexpr Parameter kInputIn = {.name = "x",
                                       .doc = "the forward's input, shape and dtype of grad"};
inline constexpr Parameter kDxOut = {
    .name = "dx", .role = Parameter::Role::kOut, .doc = "shape and dtype of grad"};
inline constexpr Parameter kDweightOut = {
    .name = "dweight",
    .role = Parameter::Role::kOut,
    .doc = "sum(grad * (x - mean) * rstd) of each channel, [C], dtype of weight, or f32",
    .shape = "grad.shape[1:2]",
    .torch_dtype = "torch.float32 if weight is None else weight.dtype"};
inline constexpr Parameter kDbiasOut = {
    .name = "dbias",
    .role = Parameter::Role::kOut,
    .doc = "sum(grad) of each channel, [C], dtype of weight, or f32",
    .shape = "grad.shape[1:2]",
    .torch_dtype = "torch.float32 if weight is None else weight.dtype"};

struct Common {
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::span<const std::string_view> kExtentNames = kExtents;
  static constexpr int kOptionalExtents = 2;
  static constexpr std::string_view kSource =
      "Ioffe and Szegedy, Batch Normalization, 2015, arXiv:1502.03167";
  static constexpr std::string_view kFormula =
      "y = (x - mean) / sqrt(variance + eps) * weight + bias, of each channel";

  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
  static void fill(const Problem& problem, int index, uint64_t seed);
};
struct Forward : Common {
  using Call = ForwardCall;
  static Call call(const Problem& problem);
  static std::span<const Rung* const> by_worth(const Call& call);  // batch_norm.cu
};
struct Backward : Common {
  using Call = BackwardCall;
  static Call call(const Problem& problem);
  static std::span<const Rung* const> by_worth(const Call& call);
};

// ---- Operations -------------------------------------------------------------------------------

struct BatchNormForward : Forward {
  static constexpr std::string_view kName = "batch_norm_forward";
  static constexpr std::string_view kSummary =
      "each channel moved to mean 0 and variance 1 over the batch, scaled and shifted";
  static constexpr Parameter kParameters[] = {kXIn, kWeightIn, kBiasIn, kYOut, kMeanOut, kRstdOut};
  static constexpr Attribute kAttributes[] = {kEps};
  static constexpr std::string_view kTorch = kForwardInTorch;
  static constexpr std::string_view kGradient = kForwardGradient;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsers}, {"cudnn", kCudnn}};
  static Cases cases();
};

struct BatchNormTraining : Forward {
  static constexpr std::string_view kName = "batch_norm_training";
  static constexpr std::string_view kSummary =
      "batch_norm_forward that moves the running statistics along, in place";
  static constexpr Parameter kParameters[] = {
      kXIn,
      {.name = "running_mean",
       .role = Parameter::Role::kInOut,
       .doc = "[C], dtype of x or f32: (1 - momentum) of it + momentum of the mean"},
      {.name = "running_var",
       .role = Parameter::Role::kInOut,
       .doc = "the same with the unbiased variance"},
      kWeightIn,
      kBiasIn,
      kYOut,
      kMeanOut,
      kRstdOut};
  static constexpr Attribute kAttributes[] = {
      {.name = "momentum",
       .kind = Value::Kind::kFloat,
       .standard = 0.1,
       .doc = "how much of the running statistics is new, as torch has it"},
      kEps};
  static constexpr std::string_view kTorch = kTrainingInTorch;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsersTraining},
                                                {"cudnn", kCudnnTraining}};
  static Cases cases();
};

struct BatchNormInference : Forward {
  static constexpr std::string_view kName = "batch_norm_inference";
  static constexpr std::string_view kSummary = "channels normalised by what training has left";
  static constexpr std::string_view kFormula =
      "y = (x - running_mean) / sqrt(running_var + eps) * weight + bias";
  static constexpr Parameter kParameters[] = {
      kXIn,
      {.name = "running_mean", .doc = "[C], dtype of x or f32"},
      {.name = "running_var", .doc = "[C], dtype of running_mean"},
      kWeightIn,
      kBiasIn,
      kYOut};
  static constexpr Attribute kAttributes[] = {kEps};
  static constexpr std::string_view kTorch = kInferenceInTorch;
  static constexpr std::string_view kGradient = kInferenceGradient;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsersInference}};
  static Cases cases();
};

struct BatchNormBackward : Backward {
  static constexpr std::string_view kName = "batch_norm_backward";
  static constexpr std::string_view kSummary = "gradients of batch_norm: of x, weight and bias";
  static constexpr std::string_view kFormula =
      "dx = (grad - mean(grad) - z * mean(grad * z)) * rstd * weight, dweight = sum(grad * z), "
      "dbias = sum(grad), z = (x - mean) * rstd; not training: dx = grad * rstd * weight";
  static constexpr Parameter kParameters[] = {
      kGradIn,
      kInputIn,
      {.name = "mean", .doc = "the forward's, f32 [C]; not training: the running one"},
      {.name = "rstd", .doc = "the forward's, f32 [C]; not training: of the running variance"},
      kWeightIn,
      kDxOut,
      kDweightOut,
      kDbiasOut};
  static constexpr Attribute kAttributes[] = {
      {.name = "training",
       .kind = Value::Kind::kBool,
       .standard = true,
       .doc = "mean and rstd are of x; else they are constants"}};
  static constexpr std::string_view kTorch = kBackwardInTorch;
  static constexpr std::string_view kGradient = kBackwardCurved;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsersBackward},
                                                {"cudnn", kCudnnBackward}};
  static Cases cases();
};

struct GroupNormForward : Forward {
  static constexpr std::string_view kName = "group_norm_forward";
  static constexpr std::string_view kSummary =
      "groups of a sample's channels moved to mean 0 and variance 1, scaled and shifted by channel";
  static constexpr std::string_view kSource =
      "Wu and He, Group Normalization, 2018, arXiv:1803.08494; a group a channel: Ulyanov, Vedaldi "
      "and Lempitsky, Instance Normalization, 2016, arXiv:1607.08022";
  static constexpr std::string_view kFormula =
      "y = (x - mean) / sqrt(variance + eps) * weight + bias, of each group of each sample";
  static constexpr Parameter kParameters[] = {
      kXIn,
      kWeightIn,
      kBiasIn,
      kYOut,
      {.name = "mean",
       .role = Parameter::Role::kOut,
       .doc = "of each group, f32 [N, groups]",
       .shape = "(x.shape[0], groups)",
       .torch_dtype = "torch.float32"},
      {.name = "rstd",
       .role = Parameter::Role::kOut,
       .doc = "1 / standard deviation of each group, f32 [N, groups]",
       .shape = "(x.shape[0], groups)",
       .torch_dtype = "torch.float32"}};
  static constexpr Attribute kAttributes[] = {kGroups, kEps};
  static constexpr std::string_view kTorch = kGroupForwardInTorch;
  static constexpr std::string_view kGradient = kGroupForwardGradient;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsersGroup}};
  static Cases cases();
};

struct GroupNormBackward : Backward {
  static constexpr std::string_view kName = "group_norm_backward";
  static constexpr std::string_view kSummary = "gradients of group_norm: of x, weight and bias";
  static constexpr std::string_view kSource = GroupNormForward::kSource;
  static constexpr std::string_view kFormula =
      "dx = (u - mean(u) - z * mean(u * z)) * rstd, dweight = sum(grad * z), dbias = sum(grad), "
      "u = grad * weight, z = (x - mean) * rstd";
  static constexpr Parameter kParameters[] = {
      kGradIn,
      kInputIn,
      {.name = "mean", .doc = "the forward's, f32 [N, groups]"},
      {.name = "rstd", .doc = "the forward's, f32 [N, groups]"},
      kWeightIn,
      kDxOut,
      kDweightOut,
      kDbiasOut};
  static constexpr Attribute kAttributes[] = {kGroups};
  static constexpr std::string_view kTorch = kGroupBackwardInTorch;
  static constexpr std::string_view kGradient = kGroupBackwardCurved;
  static constexpr PythonPeer kPythonPeers[] = {{"torch", kTorchUsersGroupBackward}};
  static Cases cases();
};

}  // namespace ws::batch_norm
