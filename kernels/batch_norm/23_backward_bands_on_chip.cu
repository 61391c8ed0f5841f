// Idea: where the runs of a channel are no whole vectors, a block takes as many neighbouring
// channels as a vector has elements: whole vectors of grad and x in each sample.
// From backward_shares_on_chip: a share is a band of whole samples; sums by element of a vector
// become sums of channels at the end.
// Traffic: two reads, one write.
// Limits: contiguous NCHW, whole vectors of channels, a band of up to 108 KiB of each.
#include "kernels/batch_norm/bands.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct DifferentiateBand {
  using Element = T;
  using Total = Sums;
  using Merge = PlusSums;
  using Coefficient = Gradient;
  static constexpr int kInputs = 2;  // grad, x
  static constexpr bool kPivots = false;

  GradientRule rule;

  static DifferentiateBand of(const BackwardCall& call) { return {rule_of(call)}; }
  __device__ __forceinline__ float center(int64_t c) const { return rule.mean_of(c); }
  template <class X>
  __device__ __forceinline__ static void add(float& grads, float& products, const X& x, int i,
                                             float mean) {
    grads += x[0][i];
    products = thread::fma(x[0][i], x[1][i] - mean, products);
  }
  __device__ __forceinline__ static Total total(float /*count*/, float /*mean*/, float grads,
                                                float products) {
    return {grads, products};
  }
  __device__ __forceinline__ Coefficient of_total(int64_t c, const Total& total) const {
    return rule.gradient(c, total);
  }
  template <class X>
  __device__ __forceinline__ static float apply(const Coefficient& of, const X& x, int i) {
    return of(x[0][i], x[1][i]);
  }
  __device__ __forceinline__ void finish(int64_t c, const Total& total) const {
    rule.finish(c, total);
  }
};

using BackwardBandsOnChip = Bands<BackwardCall, DifferentiateBand>;

}  // namespace

extern const Rung kBackwardBandsOnChip;
const Rung kBackwardBandsOnChip = rung_of<BackwardBandsOnChip, BatchNormBackward>({
    .name = "backward_bands_on_chip",
    .from = "backward_shares_on_chip",
    .idea = "a block takes grad and x of neighbouring channels that are whole vectors together",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
