// merge_attn_states: attention over two sets of keys, from what each gave alone.
//
// Each part is a weighed mean of its values and the logarithm of its weights' sum, which is all
// that the other needs of it: so keys can be attended to in parts, by other blocks or other GPUs.
#pragma once

#include "kernels/attention/operations.hpp"
#include "warpsmith/thread/max_sum.hpp"

namespace ws::attention {

struct MergeAttnStates {
  static constexpr std::string_view kName = "merge_attn_states";
  static constexpr std::string_view kSummary =
      "attention over all keys from attention over each of two parts of them";
  static constexpr std::string_view kSource =
      "Ye et al., FlashInfer, 2025, arXiv:2501.01005; vLLM's merge_attn_states";
  static constexpr std::string_view kFormula =
      "lse = log(exp(lse_a) + exp(lse_b)), out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b";
  static constexpr Parameter kParameters[] = {
      {.name = "out_a", .doc = "[B, H, S, D], or [T, H, D] of packed sequences; any strides"},
      {.name = "lse_a", .doc = "f32 [B, H, S], or [H, T]; -infinity: that part saw nothing"},
      {.name = "out_b", .doc = "shape and dtype of out_a"},
      {.name = "lse_b", .doc = "f32, shape of lse_a"},
      {.name = "out",
       .role = Parameter::Role::kOut,
       .doc = "shape and dtype of out_a; 0 where neither part saw anything",
       .shape = "out_a.shape"},
      {.name = "lse",
       .role = Parameter::Role::kOut,
       .doc = "f32, shape of lse_a",
       .shape = "lse_a.shape",
       .torch_dtype = "torch.float32"},
  };
  // has: a sum of Has.
  enum Has : uint8_t {
    kRowsBeforeHeads = 1,  // in memory
    kPacked = 2,           // [S, H, D] and [H, S]; B is 1
  };
  static constexpr std::string_view kExtentNames[] = {"B", "H", "S", "D", "has"};
  static constexpr int kOptionalExtents = 1;
  static constexpr DTypes kDTypes = kFloats;
  static constexpr std::string_view kTorch = R"(
lse = torch.logaddexp(lse_a, lse_b)

def part(out, own):
    weight = torch.exp(own - lse).nan_to_num(0)
    return out.float() * (weight.mT if out.dim() == 3 else weight)[..., None]

return (part(out_a, lse_a) + part(out_b, lse_b)).to(out_a.dtype), lse
)";

  struct Call {
    DType dtype{};
    int64_t batch = 0;
    int64_t heads = 0;
    int64_t rows = 0;
    int64_t dim = 0;
    Heads out_a, out_b, out;
    Heads lse_a, lse_b, lse;  // f32, no columns

    constexpr int64_t items() const { return batch * heads * rows; }
  };
  static Call call(const Problem& problem);
  static void infer(Problem& problem);
  static void make(const Case& chosen, DType dtype, Problem& problem);
  static Cases cases();
  static Cost cost(const Problem& problem);
  static Tolerance tolerance(const Problem& problem, const Parameter& output);
  static int64_t items(const Problem& problem, const Parameter& output);
  static void fill(const Problem& problem, int index, uint64_t seed);
  static void reference(const Problem& problem, Slice slice, std::span<double* const> expected);
};

#if WS_DEVICE_CODE
// How much of each part is in the whole, and the whole's logarithm.
struct MergeWeights {
  float a;
  float b;
  float lse;

  __device__ __forceinline__ static MergeWeights of(float lse_a, float lse_b) {
    const float from = thread::finite_or_zero(fmaxf(lse_a, lse_b));
    const float a = thread::exp(lse_a - from);
    const float b = thread::exp(lse_b - from);
    const float sum = a + b;
    if (sum == 0) return {0, 0, -thread::kInfinity};
    return {a / sum, b / sum, from + thread::log(sum)};
  }
  // A part that saw nothing gives nothing, whatever stands there.
  __device__ __forceinline__ float merge(float of_a, float of_b) const {
    return (a == 0 ? 0 : a * of_a) + (b == 0 ? 0 : b * of_b);
  }
};
#endif

}  // namespace ws::attention
