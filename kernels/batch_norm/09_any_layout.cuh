// Idea: every call: any strides, any dtype of the parameters, groups of channels that lie side by
// side. An element's address is worked out, not assumed.
// From welford: still a block a channel; the axes of a set are sorted by their steps, so that
// neighbouring threads read what lies together.
// Traffic: two reads, one write. For channels that lie side by side each load fetches a sector for
// one element, and several blocks share it at best.
#pragma once

#include "kernels/batch_norm/values.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::batch_norm {

#if WS_DEVICE_CODE

template <class T>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;
  using AllReduce = block::AllReduce<thread::Moments, kThreads>;
  struct Arguments {
    Layout layout;
    Values weight;
    Values bias;
    Statistics statistics;
  };
  struct SharedStorage {
    typename AllReduce::Storage moments;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    AllReduce all_reduce(shared.moments);
    const Layout& layout = a.layout;
    for (int64_t s = block_index(); s < layout.sets; s += grid_blocks()) {
      const T* x = static_cast<const T*>(layout.data[kX]) + layout.start(kX, s);
      T* y = static_cast<T*>(layout.data[kY]) + layout.start(kY, s);
      const auto input = [&](int64_t e) {
        return to_float(thread::load(x + layout.offset(kX, e)));
      };
      Normal normal{};
      if (a.statistics.given) {
        normal = a.statistics.stored(s);
      } else {
        Running running;
        for (int64_t e = thread_index(); e < layout.count; e += kThreads) running.add(input(e));
        const auto moments = all_reduce(running.moments(), MergeMoments{});
        normal = a.statistics.normal(moments);
        if (thread_index() == 0) a.statistics.finish(s, moments);
      }
      const int64_t first = s % layout.per * layout.width;
      for (int64_t e = thread_index(); e < layout.count; e += kThreads) {
        const int64_t c = first + layout.channel(e);
        const float z = (input(e) - normal.mean) * normal.rstd;
        const float out = thread::fma(z, of_channel(a.weight, c, 1.0F), of_channel(a.bias, c));
        thread::store(y + layout.offset(kY, e), from_float<T>(out));
      }
    }
  }
};

struct AnyLayout {
  static void run(const ForwardCall& call, const Context& context) {
    if (call.layout.sets == 0) return;
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyLayoutKernel<T>;
      launch<Kernel>(
          {.blocks = std::min(call.layout.sets, kMostBlocks), .threads = Kernel::kThreads},
          context.stream, {call.layout, call.weight, call.bias, statistics_of(call)});
    });
  }
};

inline constexpr Rung kAnyLayout =
    rung_of<AnyLayout, BatchNormForward, BatchNormTraining, BatchNormInference, GroupNormForward>({
        .name = "any_layout",
        .from = "welford",
        .idea = "any strides, groups however they lie: a block a set, axes sorted by their steps",
    });

#endif

}  // namespace ws::batch_norm
