// Grouped GEMM: a list of products whose sizes are data, as of the experts of a mixture.
//
//   grouped_gemm         rows of A in groups, each times a matrix of its own
//   grouped_gemm_weight  K in groups: a product for each, what the gradient of those matrices is
//
// `offs` says where each group ends, on the device: a router has just computed it, and no host
// waits for it.
#pragma once

#include "catalogue/row.hpp"
#include "kernels/gemm/operations.hpp"

namespace ws::grouped_gemm {

using gemm::Contiguous;
using gemm::is_of_one_dtype;
using gemm::Matrix;
using gemm::with_dtypes;

// One call. M or K are those of all groups together. Of b (of grouped_gemm_weight: of c) `batch` is
// the stride from a group's matrix to the next's.
struct Call : gemm::Call {
  int64_t groups = 0;
  const int32_t* ends = nullptr;
  int64_t end_stride = 1;
  DType out_dtype{};  // of c
};
struct RowsCall : Call {};   // groups of M
struct DepthCall : Call {};  // groups of K

// How the tensors lie, a sum of these.
enum Views : uint8_t { kATransposed = 1, kBTransposed = 2 };

inline constexpr Attribute kOutDTypeAttribute[] = {{.name = "out_dtype",
                                                    .kind = Value::Kind::kChoice,
                                                    .standard = Value::absent(),
                                                    .choices = gemm::Bmm::kOutDTypes,
                                                    .doc = "of out; none: that of a"}};
inline constexpr std::string_view kOutDTypeInTorch =
    "a.dtype if out_dtype is None else getattr(torch, out_dtype)";

inline constexpr std::string_view kOffsDoc =
    "i32 [G], where each group ends: never less than the one before, at most T";

struct GroupedGemm {
  static constexpr std::string_view kName = "grouped_gemm";
  static constexpr std::string_view kSummary =
      "groups of rows, each times a matrix of its own; accumulated in f32";
  static constexpr std::string_view kSource = "torch.nn.functional.grouped_mm";
  static constexpr std::string_view kFormula =
      "out[t, j] = sum over k of a[t, k] * b[g, k, j], offs[g - 1] <= t < offs[g]";
  static constexpr Parameter kParameters[] = {
      {.name = "a",
       .doc = "[T, K], any strides: the rows of all groups, one group after the other"},
      {.name = "b", .doc = "[G, K, N], any strides, dtype of a"},
      {.name = "offs", .doc = kOffsDoc},
      {.name = "out",
       .role = Parameter::Role::kOut,
       .doc = "[T, N], dtype of a or as `out_dtype` says; zeros after the last group",
       .shape = "(a.shape[0], b.shape[2])",
       .torch_dtype = kOutDTypeInTorch},
  };
  static constexpr auto& kAttributes = kOutDTypeAttribute;
  static constexpr std::string_view kExtentNames[] = {"G", "T", "N", "K", "views"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  // A product a group, which needs the offsets on the host.
  static constexpr std::string_view kTorch =
      "(lambda x, w, ends: torch.cat([x[i:j] @ m for i, j, m in zip([0, *ends], ends, w)] + "
      "[x.new_zeros(x.shape[0] - [0, *ends][-1], w.shape[2])]))("
      "*((a, b) if out_dtype is None else (a.to(getattr(torch, out_dtype)), "
      "b.to(getattr(torch, out_dtype)))), offs.tolist())";
  static constexpr std::string_view kGradient =
      "(ops.grouped_gemm(g.to(a.dtype), b.transpose(1, 2), offs), "
      "ops.grouped_gemm_weight(a.t(), g.to(a.dtype), offs), None)";
  // It takes rows of multiples of 16 bytes, and leaves rows after the last group as they were.
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_grouped",
       "torch.nn.functional.grouped_mm(a, b, offs=offs) if out_dtype is None else "
       "refuse('torch writes the dtype of a')"},
  };

  using Call = RowsCall;
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

struct GroupedGemmWeight {
  static constexpr std::string_view kName = "grouped_gemm_weight";
  static constexpr std::string_view kSummary =
      "a product for each group of K, accumulated in f32: the gradient of grouped_gemm's b";
  static constexpr std::string_view kSource = "torch.nn.functional.grouped_mm";
  static constexpr std::string_view kFormula =
      "out[g, i, j] = sum over t of a[i, t] * b[t, j], offs[g - 1] <= t < offs[g]";
  static constexpr Parameter kParameters[] = {
      {.name = "a", .doc = "[M, T], any strides: T is the groups, one after the other"},
      {.name = "b", .doc = "[T, N], any strides, dtype of a"},
      {.name = "offs", .doc = kOffsDoc},
      {.name = "out",
       .role = Parameter::Role::kOut,
       .doc = "[G, M, N], dtype of a or as `out_dtype` says; zeros of an empty group",
       .shape = "(offs.shape[0], a.shape[0], b.shape[1])",
       .torch_dtype = kOutDTypeInTorch},
  };
  static constexpr auto& kAttributes = kOutDTypeAttribute;
  static constexpr std::string_view kExtentNames[] = {"G", "M", "N", "T", "views"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch =
      "(lambda x, y, ends: torch.stack([x[:, i:j] @ y[i:j] for i, j in zip([0, *ends], ends)]) "
      "if ends else x.new_zeros(0, x.shape[0], y.shape[1]))("
      "*((a, b) if out_dtype is None else (a.to(getattr(torch, out_dtype)), "
      "b.to(getattr(torch, out_dtype)))), offs.tolist())";
  static constexpr std::string_view kGradient =
      "(ops.grouped_gemm(b, g.to(a.dtype).transpose(1, 2), offs).t(), "
      "ops.grouped_gemm(a.t(), g.to(a.dtype), offs), None)";
  static constexpr PythonPeer kPythonPeers[] = {
      {"torch_grouped",
       "torch.nn.functional.grouped_mm(a, b, offs=offs) if out_dtype is None else "
       "refuse('torch writes the dtype of a')"},
  };

  using Call = DepthCall;
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

}  // namespace ws::grouped_gemm
