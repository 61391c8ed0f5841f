// Idea: every call: any strides of each tensor, groups however they lie. A block a set writes dx;
// for dweight and dbias of groups, which samples share, a second launch has a block a channel.
// From backward_naive: a block a channel, and addresses are worked out, not assumed.
// Traffic: grad and x twice, dx once; of groups both once more.
#pragma once

#include "kernels/batch_norm/values.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct AnyLayoutDxKernel {
  static constexpr int kThreads = 256;
  using AllReduce = block::AllReduce<Sums, kThreads>;
  struct Arguments {
    Layout layout;
    GradientRule rule;
  };
  struct SharedStorage {
    typename AllReduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.sums);
    const Layout& layout = a.layout;
    for (int64_t s = block_index(); s < layout.sets; s += grid_blocks()) {
      const auto element = [&](int k, int64_t e) {
        const T* of = static_cast<const T*>(layout.data[k]) + layout.start(k, s);
        return to_float(thread::load(of + layout.offset(k, e)));
      };
      const int64_t first = s % layout.per * layout.width;
      const auto weighed = [&](int64_t e) {
        return element(kGrad, e) * of_channel(a.rule.weight, first + layout.channel(e), 1.0F);
      };
      const float mean = load(a.rule.mean, place_of_set(a.rule.mean, s, layout.per));
      const float rstd = load(a.rule.rstd, place_of_set(a.rule.rstd, s, layout.per));
      Sums sums = Sums::none();
      for (int64_t e = thread_index(); e < layout.count; e += kThreads) {
        sums.add(weighed(e), element(kInput, e) - mean);
      }
      sums = all_reduce(sums, PlusSums{});
      const float share = rstd * a.rule.inverse_count;
      const Gradient gradient{mean, rstd, share * sums.grad, share * rstd * rstd * sums.product,
                              a.rule.training};
      T* dx = static_cast<T*>(layout.data[kDx]) + layout.start(kDx, s);
      for (int64_t e = thread_index(); e < layout.count; e += kThreads) {
        thread::store(dx + layout.offset(kDx, e),
                      from_float<T>(gradient(weighed(e), element(kInput, e))));
      }
    }
  }
};

// dweight and dbias of a channel, through all samples.
template <class T>
struct AnyLayoutParametersKernel {
  static constexpr int kThreads = 256;
  using AllReduce = block::AllReduce<Sums, kThreads>;
  struct Arguments {
    Layout rows;  // a set for each channel of each sample
    GradientRule rule;
    int64_t per;    // statistics of a sample
    int64_t width;  // channels of each
    bool groups;    // each sample has its own
  };
  struct SharedStorage {
    typename AllReduce::Storage sums;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.sums);
    const Layout& rows = a.rows;
    for (int64_t c = block_index(); c < rows.per; c += grid_blocks()) {
      Sums sums = Sums::none();
      for (int64_t s = c; s < rows.sets; s += rows.per) {
        const int64_t set = (a.groups ? s / rows.per * a.per : 0) + c / a.width;
        const float mean = load(a.rule.mean, place_of_set(a.rule.mean, set, a.per));
        const float rstd = load(a.rule.rstd, place_of_set(a.rule.rstd, set, a.per));
        const T* grad = static_cast<const T*>(rows.data[kGrad]) + rows.start(kGrad, s);
        const T* x = static_cast<const T*>(rows.data[kInput]) + rows.start(kInput, s);
        for (int64_t e = thread_index(); e < rows.count; e += kThreads) {
          sums.add(to_float(thread::load(grad + rows.offset(kGrad, e))),
                   (to_float(thread::load(x + rows.offset(kInput, e))) - mean) * rstd);
        }
      }
      sums = all_reduce(sums, PlusSums{});
      if (thread_index() == 0) {
        store(a.rule.dweight, c * a.rule.dweight.stride, sums.product);
        store(a.rule.dbias, c * a.rule.dbias.stride, sums.grad);
      }
    }
  }
};

struct BackwardAnyLayout {
  static void run(const BackwardCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Dx = AnyLayoutDxKernel<T>;
      using OfParameters = AnyLayoutParametersKernel<T>;
      const GradientRule rule = rule_of(call);
      const int64_t channels = call.layout.channels();
      if (call.layout.sets > 0 && call.layout.count > 0) {
        launch<Dx>({.blocks = std::min(call.layout.sets, kMostBlocks), .threads = Dx::kThreads},
                   context.stream, {call.layout, rule});
      }
      if (channels == 0) return;
      launch<OfParameters>(
          {.blocks = std::min(channels, kMostBlocks), .threads = OfParameters::kThreads},
          context.stream, {call.rows, rule, call.layout.per, call.layout.width, call.groups});
    });
  }
};

inline constexpr Rung kBackwardAnyLayout =
    rung_of<BackwardAnyLayout, BatchNormBackward, GroupNormBackward>({
        .name = "backward_any_layout",
        .from = "backward_naive",
        .idea = "any strides, groups however they lie: a block a set, then a block a channel",
    });

#endif

}  // namespace ws::batch_norm
