// Idea: where the runs of a channel are no whole vectors, as many neighbouring channels as a vector
// has elements are: in each sample a band, which a block takes. A lane has the same vectors of all
// samples, whose elements belong to the same channels.
// From shares_on_chip: a share is a band of whole samples; sums by element of a vector become sums
// of channels at the end.
// Traffic: one read, one write.
// Limits: contiguous NCHW, whole vectors of channels, a band of up to 216 KiB.
#include "kernels/batch_norm/bands.hpp"

namespace ws::batch_norm {
namespace {

template <class T>
struct NormaliseBand {
  struct alignas(16) Coefficient {
    float mean;
    float scale;
    float shift;
    float unused;
  };
  using Element = T;
  using Total = thread::Moments;
  using Merge = MergeMoments;
  static constexpr int kInputs = 1;
  static constexpr bool kPivots = true;

  Values weight;
  Values bias;
  Statistics statistics;

  static NormaliseBand of(const ForwardCall& call) {
    return {call.weight, call.bias, statistics_of(call)};
  }
  template <class X>
  __device__ __forceinline__ static void add(float& sum, float& squares, const X& x, int i,
                                             float pivot) {
    const float away = x[0][i] - pivot;
    sum += away;
    squares = thread::fma(away, away, squares);
  }
  __device__ __forceinline__ static Total total(float count, float pivot, float sum,
                                                float squares) {
    return thread::from_pivot(count, pivot, sum, squares);
  }
  __device__ __forceinline__ Coefficient of_total(int64_t c, const Total& total) const {
    const Normal normal = statistics.normal(total);
    const Parameters of = Parameters::of(weight, bias, c);
    return {normal.mean, normal.rstd * of.weight, of.bias, 0};
  }
  template <class X>
  __device__ __forceinline__ static float apply(const Coefficient& of, const X& x, int i) {
    return thread::fma(x[0][i] - of.mean, of.scale, of.shift);
  }
  __device__ __forceinline__ void finish(int64_t c, const Total& total) const {
    statistics.finish(c, total);
  }
};

using BandsOnChip = Bands<ForwardCall, NormaliseBand>;

}  // namespace

extern const Rung kBandsOnChip;
const Rung kBandsOnChip = rung_of<BandsOnChip, BatchNormForward, BatchNormTraining>({
    .name = "bands_on_chip",
    .from = "shares_on_chip",
    .idea = "a block takes neighbouring channels that are whole vectors together, as 8 of 7 x 7",
    .arch = Arch::kSm90,
});

}  // namespace ws::batch_norm
