// What the gradients of groups share: sums of each channel of each sample, weighed and added up in
// a group, make dx; added up through the samples they are dweight and dbias.
#pragma once

#include "kernels/batch_norm/parts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

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
  // What a channel's gradients are made of: parts(n, k) are its sums in sample n, k < count. By
  // kThreads threads, the warps of which have their sums.
  template <int kThreads, class Parts>
  __device__ __forceinline__ Sums sums_of(int64_t c, int64_t samples, int64_t count, int thread,
                                          const Parts& parts) const {
    const int64_t g = c / width;
    const auto of_sample = static_cast<uint32_t>(count);
    return sum<kThreads>(samples * count, thread, [&](int64_t i) {
      const uint32_t n = static_cast<uint32_t>(i) / of_sample;  // divided in 32 bits
      const Sums part = parts(n, static_cast<uint32_t>(i) - n * of_sample);
      return Sums{part.grad, rstd(n, g) * part.product};
    });
  }
  __device__ __forceinline__ void finish(int64_t c, const Sums& total) const {
    store(rule.dweight, c * rule.dweight.stride, total.product);
    store(rule.dbias, c * rule.dbias.stride, total.grad);
  }
  // In a fixed order.
  template <int kThreads, class Part>
  __device__ __forceinline__ static Sums sum(int64_t count, int thread, const Part& part) {
    Sums total = Sums::none();
#pragma unroll 4
    for (int64_t i = thread; i < count; i += kThreads) total = PlusSums{}(total, part(i));
    return warp::all_reduce(total, PlusSums{});
  }
};

// A warp a group of a sample, then a block a channel, of which clusters leave a few hundred parts.
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
    __host__ __device__ __forceinline__ int64_t blocks_of_sets() const {
      return divide_up(sets(), int64_t{kWarps});
    }
  };
  struct SharedStorage {
    SharedArray<Sums, kWarps> warps;
  };

  static void launch_on(const Arguments& arguments, Stream stream) {
    launch<FinishGroupsKernel>({.blocks = arguments.blocks_of_sets() + arguments.of.channels,
                                .threads = kThreads,
                                .overlaps = true},
                               stream, arguments);
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    ptx::griddepcontrol_wait();
    const GroupRule& of = a.of;
    const int64_t blocks_of_sets = a.blocks_of_sets();
    if (block_index() < blocks_of_sets) {
      const int64_t item = block_index() * kWarps + warp_index();
      if (item >= a.sets()) return;
      const auto count = static_cast<uint32_t>(a.count);
      const bool weighed = a.of_groups != nullptr;
      const int64_t each = weighed ? a.count : of.width * a.count;
      const Sums* from = (weighed ? a.of_groups : a.parts) + item * each;
      const int64_t first = item % of.groups * of.width;
      const Sums total = GroupRule::sum<kWarpSize>(each, lane_index(), [&](int64_t i) {
        const float w = weighed ? 1.0F : of.weight(first + static_cast<uint32_t>(i) / count);
        const Sums part = thread::load(from + i);
        return Sums{w * part.grad, w * part.product};
      });
      if (lane_index() == 0) thread::store(a.totals + item, Vec<Sums, 1>{{total}});
    } else {
      const int64_t c = block_index() - blocks_of_sets;
      const Sums of_warp =
          of.sums_of<kThreads>(c, a.samples, a.count, thread_index(), [&](int64_t n, int64_t k) {
            return thread::load(a.parts + (n * of.channels + c) * a.count + k);
          });
      if (lane_index() == 0) shared.warps[warp_index()] = of_warp;
      ptx::barrier_sync();
      if (thread_index() != 0) return;
      Sums total = of_warp;
#pragma unroll
      for (int w = 1; w < kWarps; ++w) {
        const Sums more = shared.warps[w];
        total = PlusSums{}(total, more);
      }
      of.finish(c, total);
    }
  }
};

#endif

}  // namespace ws::batch_norm
