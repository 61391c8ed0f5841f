// What the gradients of groups share: sums of each channel of each sample, weighed and added up in
// a group, make dx; added up through the samples they are dweight and dbias.
#pragma once

#include "kernels/batch_norm/parts.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

struct GroupRule {
  GradientRule rule;
  int64_t groups;    // of a sample
  int64_t width;     // channels of a group
  int64_t channels;  // of a sample

  static GroupRule of(const BackwardCall& call) {
    return {rule_of(call), call.layout.per, call.layout.width, call.layout.channels()};
  }

  __device__ __forceinline__ Normal normal(int64_t set) const {
    return {load(rule.mean, place_of_set(rule.mean, set, groups)), rstd_of(set)};
  }
  __device__ __forceinline__ float rstd_of(int64_t set) const {
    return load(rule.rstd, place_of_set(rule.rstd, set, groups));
  }
  // Of channel c of a sample.
  __device__ __forceinline__ float weight(int64_t c) const {
    return of_channel(rule.weight, c, 1.0F);
  }
  // dx of a channel, from the sums of its group, whose terms are times the weights.
  __device__ __forceinline__ Gradient gradient(const Normal& normal, float of_weight,
                                               const Sums& group) const {
    const float r = normal.rstd;
    const float share = r * rule.inverse_count;
    return {normal.mean, r * of_weight, share * group.grad, share * r * r * group.product, true};
  }
  // A channel's gradients, by a warp: parts(n, k) are its sums in sample n, k < count.
  template <class Parts>
  __device__ __forceinline__ void finish(int64_t c, int64_t samples, int64_t count,
                                         const Parts& parts) const {
    const Sums total = sum(samples * count, [&](int64_t i) {
      const int64_t n = i / count;
      const Sums part = parts(n, i % count);
      return Sums{part.grad, rstd_of(n * groups + c / width) * part.product};
    });
    if (lane_index() != 0) return;
    store(rule.dweight, c * rule.dweight.stride, total.product);
    store(rule.dbias, c * rule.dbias.stride, total.grad);
  }
  // By a warp, in a fixed order.
  template <class Part>
  __device__ __forceinline__ static Sums sum(int64_t count, const Part& part) {
    Sums total = Sums::none();
#pragma unroll 4
    for (int64_t i = lane_index(); i < count; i += kWarpSize) total = PlusSums{}(total, part(i));
    return warp::all_reduce(total, PlusSums{});
  }
};

#endif

}  // namespace ws::batch_norm
