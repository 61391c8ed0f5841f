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
  // Of group g of a sample.
  __device__ __forceinline__ Normal normal(int64_t sample, int64_t g) const {
    return {mean(sample, g), rstd(sample, g)};
  }
  __device__ __forceinline__ float mean(int64_t sample, int64_t g) const {
    return load(rule.mean, sample * rule.mean.sample + g * rule.mean.stride);
  }
  __device__ __forceinline__ float rstd(int64_t sample, int64_t g) const {
    return load(rule.rstd, sample * rule.rstd.sample + g * rule.rstd.stride);
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
    const int64_t g = c / width;
    const auto of_sample = static_cast<uint32_t>(count);
    const Sums total = sum(samples * count, [&](int64_t i) {
      const uint32_t n = static_cast<uint32_t>(i) / of_sample;  // divided in 32 bits
      const Sums part = parts(n, static_cast<uint32_t>(i) - n * of_sample);
      return Sums{part.grad, rstd(n, g) * part.product};
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

// A warp a group of a sample, then a warp a channel.
struct FinishGroupsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  struct Arguments {
    GroupRule of;
    const Sums* parts;      // [samples, channels, count]
    const Sums* of_groups;  // [samples, groups, count], of grad * weight; null: made from parts
    Sums* totals;           // [samples, groups], of grad * weight; null: nobody needs them
    int64_t samples;
    int64_t count;

    __host__ __device__ __forceinline__ int64_t sets() const {
      return totals == nullptr ? 0 : samples * of.groups;
    }
  };
  struct SharedStorage {};

  static void launch_on(const Arguments& arguments, Stream stream) {
    launch<FinishGroupsKernel>(
        {.blocks = divide_up(arguments.sets() + arguments.of.channels, int64_t{kWarps}),
         .threads = kThreads,
         .overlaps = true},
        stream, arguments);
  }

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const GroupRule& of = a.of;
    const int64_t sets = a.sets();
    const int64_t item = block_index() * kWarps + warp_index();
    if (item < sets) {
      const auto count = static_cast<uint32_t>(a.count);
      const bool weighed = a.of_groups != nullptr;
      const int64_t each = weighed ? a.count : of.width * a.count;
      const Sums* from = (weighed ? a.of_groups : a.parts) + item * each;
      const int64_t first = item % of.groups * of.width;
      const Sums total = GroupRule::sum(each, [&](int64_t i) {
        const float w = weighed ? 1.0F : of.weight(first + static_cast<uint32_t>(i) / count);
        const Sums part = thread::load(from + i);
        return Sums{w * part.grad, w * part.product};
      });
      if (lane_index() == 0) thread::store(a.totals + item, Vec<Sums, 1>{{total}});
    } else if (item < sets + of.channels) {
      const int64_t c = item - sets;
      of.finish(c, a.samples, a.count, [&](int64_t n, int64_t k) {
        return thread::load(a.parts + (n * of.channels + c) * a.count + k);
      });
    }
  }
};

#endif

}  // namespace ws::batch_norm
